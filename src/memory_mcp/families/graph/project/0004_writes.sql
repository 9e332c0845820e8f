-- Who wrote what, and how it was before (docs/reliability.md, "Who wrote what"). Written in the transaction of the write.
CREATE TABLE graph_writes (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,  -- ISO 8601, UTC, to the millisecond
    source     TEXT NOT NULL,  -- mcp, ui, cli, import, hook or sync
    client     TEXT NOT NULL,  -- the name that the program gave itself
    key_id     TEXT,           -- NULL: without a key
    key_name   TEXT,
    session_id TEXT,
    item       TEXT NOT NULL,  -- a row: entity/ID, observation/ID or relation/ID
    action     TEXT NOT NULL,  -- created, updated or deleted
    before     TEXT,           -- not used for graphs, whose deleted rows are kept
    after      TEXT,           -- 'active'; NULL: deleted
    undo_id    TEXT,           -- of the undo that wrote it
    undoes     INTEGER         -- the number of the first write that it undid
);
CREATE INDEX graph_writes_by_item ON graph_writes (item, number);
CREATE INDEX graph_writes_with_copies ON graph_writes (at) WHERE before IS NOT NULL;
