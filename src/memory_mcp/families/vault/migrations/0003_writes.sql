-- Who wrote what, and how it was before (docs/reliability.md, "Who wrote what"). Written in the transaction of the write.
CREATE TABLE vault_writes (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,  -- ISO 8601, UTC, to the millisecond
    source     TEXT NOT NULL,  -- mcp, ui, cli, import, hook or sync
    client     TEXT NOT NULL,  -- the name that the program gave itself
    key_id     TEXT,           -- NULL: without a key
    key_name   TEXT,
    session_id TEXT,
    item       TEXT NOT NULL,  -- the key of a memory
    action     TEXT NOT NULL,  -- created, updated or deleted
    before     TEXT,           -- JSON: the state before; erased after 30 days
    after      TEXT,           -- a digest of the state after it; NULL: deleted
    undo_id    TEXT,           -- of the undo that wrote it
    undoes     INTEGER         -- the number of the first write that it undid
);
CREATE INDEX vault_writes_by_item ON vault_writes (item, number);
CREATE INDEX vault_writes_with_copies ON vault_writes (at) WHERE before IS NOT NULL;
