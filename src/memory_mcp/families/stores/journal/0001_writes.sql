-- Who wrote which file, and how it was before (docs/reliability.md, "Who wrote what"). Written right after the file. Every other
-- program may change the files, too; `after` shows that one did.
CREATE TABLE store_writes (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,  -- ISO 8601, UTC, to the millisecond
    source     TEXT NOT NULL,  -- mcp, ui, cli, import, hook or sync
    client     TEXT NOT NULL,  -- the name that the program gave itself
    key_id     TEXT,           -- NULL: without a key
    key_name   TEXT,
    session_id TEXT,
    item       TEXT NOT NULL,  -- STORE/PATH of a file
    action     TEXT NOT NULL,  -- created, updated or deleted
    before     TEXT,           -- JSON: the whole file before; erased after 30 days
    after      TEXT,           -- a digest of the file after it; NULL: deleted
    undo_id    TEXT,           -- of the undo that wrote it
    undoes     INTEGER         -- the number of the first write that it undid
);
CREATE INDEX store_writes_by_item ON store_writes (item, number);
CREATE INDEX store_writes_with_copies ON store_writes (at) WHERE before IS NOT NULL;
