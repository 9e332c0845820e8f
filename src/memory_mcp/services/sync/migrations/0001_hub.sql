-- What a hub keeps for its users: one merged record of each note, and where each node stands.

-- The number of a user's last change. Whoever writes takes the next one and holds the row until it commits, so that
-- nobody who reads on from a number can miss a smaller one.
CREATE TABLE changes (
    user_id TEXT    PRIMARY KEY,
    seq     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE records (
    user_id   TEXT    NOT NULL,
    id        TEXT    NOT NULL,     -- of the note
    namespace TEXT,                 -- where it is now; NULL for a deletion of something nobody told of
    record    TEXT    NOT NULL,     -- JSON, see sync/records.py; of a deleted note only that it is
    PRIMARY KEY (user_id, id)
) WITHOUT ROWID;

-- Every namespace a note has ever been in: whoever syncs one of them learns that it went elsewhere. What a node asks for
-- is read and counted by the index alone.
CREATE TABLE places (
    user_id   TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    seq       INTEGER NOT NULL,     -- of the note's last change
    node      TEXT    NOT NULL,     -- whose telling was the last to change it
    PRIMARY KEY (user_id, id, namespace)
) WITHOUT ROWID;
CREATE INDEX idx_places_seq ON places(user_id, namespace, seq, node);

-- A node shows the ticket it was given last. One that shows another is a copy, or was put back to an earlier state.
CREATE TABLE nodes (
    user_id TEXT NOT NULL,
    node    TEXT NOT NULL,
    ticket  TEXT NOT NULL,  -- the latest
    former  TEXT,           -- the one it was given for, in case the answer got lost; NULL: the first
    -- Number of the change when it last showed the former ticket. It may be a copy of the node that was given the latest,
    -- and know nothing of what that one told up to here.
    doubt   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, node)
) WITHOUT ROWID;

-- With which secret the notes of a namespace are sealed, if they are: two would make them unreadable for everybody.
CREATE TABLE namespaces (
    user_id   TEXT NOT NULL,
    namespace TEXT NOT NULL,
    seal      TEXT,  -- the secret's fingerprint; NULL: the hub can read them
    PRIMARY KEY (user_id, namespace)
) WITHOUT ROWID;
