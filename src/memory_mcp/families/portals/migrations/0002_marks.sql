-- Which rows a write added: each has this number in the column _mcp_write of its table, so that the write can be undone. NULL: they
-- were written by a version that marked none, or nothing was added. An undo writes a record for each write that it undid, with
-- the same mark; its `undoes` is the number of that record. Its rows are in the file undone/TABLE.UNDO_ID.native.zst of the portal.
ALTER TABLE portal_writes ADD COLUMN mark INTEGER;
CREATE INDEX portal_writes_by_mark ON portal_writes (mark, number) WHERE mark IS NOT NULL;
