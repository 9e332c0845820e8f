-- Who wrote to which table (docs/reliability.md, "Who wrote what"), recorded right after the engine has confirmed a write. Such
-- writes are only listed, so `before`, `after`, `undo_id` and `undoes` are NULL.
CREATE TABLE portal_writes (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,  -- ISO 8601, UTC, to the millisecond
    source     TEXT NOT NULL,  -- mcp, ui, cli, import, hook or sync
    client     TEXT NOT NULL,  -- the name that the program gave itself
    key_id     TEXT,           -- NULL: without a key
    key_name   TEXT,
    session_id TEXT,
    item       TEXT NOT NULL,  -- NAMESPACE/PORTAL/TABLE; of the portal itself, NAMESPACE/PORTAL
    action     TEXT NOT NULL,  -- created, updated or deleted
    before     TEXT,
    after      TEXT,
    undo_id    TEXT,
    undoes     INTEGER,
    row_count  INTEGER,        -- how many rows were added; below 0: deleted; NULL: only the portal's name or description changed
    writer     TEXT AS (json_array(source, client, key_id, key_name)) VIRTUAL
);
CREATE INDEX portal_writes_by_item ON portal_writes (item, number);
CREATE INDEX portal_writes_by_writer ON portal_writes (item, writer);
CREATE INDEX portal_writes_of_deletions ON portal_writes (item, number) WHERE action = 'deleted';
CREATE INDEX portal_writes_with_copies ON portal_writes (at) WHERE before IS NOT NULL;
