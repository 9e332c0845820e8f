-- Which rows a write added, as the SQLite migration 0002 makes it.
ALTER TABLE portal_writes ADD COLUMN mark bigint;
CREATE INDEX portal_writes_by_mark ON portal_writes (tenant, mark, number) WHERE mark IS NOT NULL;
