-- Conversations that hooks saw. What was said in them is in notes.db.
CREATE TABLE conversations (
    id            TEXT    PRIMARY KEY,          -- the client's name and its session id
    client        TEXT    NOT NULL,
    project       TEXT    NOT NULL,
    transcript    TEXT,                         -- the path of the client's file
    read_bytes    INTEGER NOT NULL DEFAULT 0,   -- of it: where the next capture starts
    last_note     TEXT,                         -- the id of the note of the last stored message
    messages      INTEGER NOT NULL DEFAULT 0,   -- that are stored
    title         TEXT    NOT NULL DEFAULT '',  -- how the first prompt begins
    started_at    TEXT    NOT NULL,             -- times are ISO 8601, UTC, to the millisecond
    last_at       TEXT    NOT NULL,
    is_unfinished INTEGER NOT NULL DEFAULT 0,   -- 1: a capture began and did not end
    is_deleted    INTEGER NOT NULL DEFAULT 0    -- 1: by the user, so it is not captured again
) WITHOUT ROWID;
CREATE INDEX idx_conversations_project ON conversations(project, last_at);
CREATE INDEX idx_conversations_last ON conversations(last_at);
CREATE INDEX idx_conversations_unfinished ON conversations(last_at) WHERE is_unfinished = 1;

-- Memories that were put in front of a model.
CREATE TABLE given_memories (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT    NOT NULL,
    event        TEXT    NOT NULL,  -- as the client names it
    ref          TEXT    NOT NULL,
    at           TEXT    NOT NULL
);
CREATE INDEX idx_given_conversation ON given_memories(conversation, ref);
