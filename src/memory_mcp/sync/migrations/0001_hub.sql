-- The hub's database: one merged record of each note, and the state of each node.

-- The number of a user's last change. A writer takes the next number and locks the row until it commits, so a reader
-- that continues from a number cannot miss a smaller one.
CREATE TABLE changes (
    user_id TEXT    PRIMARY KEY,
    seq     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE records (
    user_id   TEXT    NOT NULL,
    id        TEXT    NOT NULL,     -- of the note
    namespace TEXT,                 -- the current one; NULL for the deletion of an unknown note
    record    TEXT    NOT NULL,     -- JSON, see sync/records.py; for a deleted note only the deletion
    PRIMARY KEY (user_id, id)
) WITHOUT ROWID;

-- Every namespace a note has ever been in: nodes that sync one of them learn that it moved. Pulls read and count by the
-- index alone.
CREATE TABLE places (
    user_id   TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    seq       INTEGER NOT NULL,     -- of the note's last change
    node      TEXT    NOT NULL,     -- that made the last change
    PRIMARY KEY (user_id, id, namespace)
) WITHOUT ROWID;
CREATE INDEX idx_places_seq ON places(user_id, namespace, seq, node);

-- A node sends the ticket it received last. A node that sends another is a copy, or was restored to an earlier state.
CREATE TABLE nodes (
    user_id TEXT NOT NULL,
    node    TEXT NOT NULL,
    ticket  TEXT NOT NULL,  -- the latest
    former  TEXT,           -- the one before, in case the answer got lost; NULL: there was none
    -- Number of the last change when the node last sent the former ticket. It may be a copy of the node that received the
    -- latest one, and lack what that node sent up to here.
    doubt   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, node)
) WITHOUT ROWID;

-- The secret that seals the notes of a namespace, if any: with two secrets no node could read all notes.
CREATE TABLE namespaces (
    user_id   TEXT NOT NULL,
    namespace TEXT NOT NULL,
    seal      TEXT,  -- the secret's fingerprint; NULL: the hub can read them
    PRIMARY KEY (user_id, namespace)
) WITHOUT ROWID;
