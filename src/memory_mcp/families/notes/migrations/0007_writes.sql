-- Who wrote what, and how it was before (docs/reliability.md, "Who wrote what"). Written in the transaction of the write.
CREATE TABLE note_writes (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,  -- ISO 8601, UTC, to the millisecond
    source     TEXT NOT NULL,  -- mcp, ui, cli, import, hook or sync
    client     TEXT NOT NULL,  -- the name that the program gave itself
    key_id     TEXT,           -- NULL: without a key
    key_name   TEXT,
    session_id TEXT,
    item       TEXT NOT NULL,  -- the id of a note, or a link
    action     TEXT NOT NULL,  -- created, updated or deleted
    before     TEXT,           -- JSON: not used for notes, whose versions are kept
    after      TEXT,           -- the version of the note; NULL: deleted
    undo_id    TEXT,           -- of the undo that wrote it
    undoes     INTEGER         -- the number of the first write that it undid
);
CREATE INDEX note_writes_by_item ON note_writes (item, number);
CREATE INDEX note_writes_with_copies ON note_writes (at) WHERE before IS NOT NULL;
