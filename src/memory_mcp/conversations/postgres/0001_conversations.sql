-- Conversations that hooks saw, as the SQLite migrations 0001 to 0003 make it.
CREATE TABLE conversations (
    tenant tenant_id,
    id            text COLLATE "C" NOT NULL,             -- the client's name and its session id
    client        text COLLATE "C" NOT NULL,
    project       text COLLATE "C" NOT NULL,
    transcript    text COLLATE "C",                      -- the path of the client's file
    read_bytes    bigint NOT NULL DEFAULT 0,             -- of it: where the next capture starts
    last_note     text COLLATE "C",                      -- the id of the note of the last stored message
    messages      bigint NOT NULL DEFAULT 0,             -- that are stored
    title         text COLLATE "C" NOT NULL DEFAULT '',  -- how the first prompt begins
    started_at    text COLLATE "C" NOT NULL,             -- times are ISO 8601, UTC, to the millisecond
    last_at       text COLLATE "C" NOT NULL,
    is_unfinished bigint NOT NULL DEFAULT 0,             -- 1: the transcript may have messages that are not stored
    is_deleted    bigint NOT NULL DEFAULT 0,             -- 1: by the user, so it is not captured again
    folder        text COLLATE "C",                      -- where the client works
    compacted_at  text COLLATE "C",                      -- what was said before is no longer in front of the model
    PRIMARY KEY (tenant, id)
);
CREATE INDEX conversations_by_project ON conversations (tenant, project, last_at);
CREATE INDEX conversations_by_time ON conversations (tenant, last_at);
CREATE INDEX conversations_unfinished ON conversations (tenant, last_at) WHERE is_unfinished = 1;

-- Memories that were put in front of a model.
CREATE TABLE given_memories (
    tenant tenant_id,
    seq          bigint NOT NULL DEFAULT memory.next_number('given_memories'),
    conversation text COLLATE "C" NOT NULL,
    event        text COLLATE "C" NOT NULL,  -- as the client names it
    ref          text COLLATE "C" NOT NULL,
    at           text COLLATE "C" NOT NULL,
    project      text COLLATE "C" NOT NULL DEFAULT '',
    why          text COLLATE "C" NOT NULL DEFAULT '',  -- such as the heading of a digest
    PRIMARY KEY (tenant, seq)
);
CREATE INDEX given_memories_by_conversation ON given_memories (tenant, conversation, ref);
CREATE INDEX given_memories_by_time ON given_memories (tenant, at);
