-- The schema of the vault's specification, to the letter. IF NOT EXISTS lets a file made by another implementation of the
-- spec be taken over with its memories.
CREATE TABLE IF NOT EXISTS session_memories (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id  TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    tags        TEXT    NOT NULL DEFAULT '[]',  -- JSON array of strings
    created_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    UNIQUE(session_id, key)
);

CREATE INDEX IF NOT EXISTS idx_session_memories_session ON session_memories(session_id);
CREATE INDEX IF NOT EXISTS idx_session_memories_tags    ON session_memories(tags);  -- partial, via LIKE

CREATE TABLE IF NOT EXISTS vault_memories (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT    NOT NULL UNIQUE,
    content     TEXT    NOT NULL,
    tags        TEXT    NOT NULL DEFAULT '[]',  -- JSON array of strings
    embedding   BLOB,                           -- optional: float32 LE array (D=1536)
    created_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    updated_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);

CREATE INDEX IF NOT EXISTS idx_vault_memories_tags ON vault_memories(tags);

-- Full-text search (FTS5) — covers both tables via content= tables
CREATE VIRTUAL TABLE IF NOT EXISTS session_fts USING fts5(
    key, content, tags,
    content=session_memories, content_rowid=id
);

CREATE VIRTUAL TABLE IF NOT EXISTS vault_fts USING fts5(
    key, content, tags,
    content=vault_memories, content_rowid=id
);

-- For a file that was taken over: the spec clears sessions at a restart, and its memories may not be in its indexes yet.
INSERT INTO session_fts(session_fts) VALUES ('rebuild');
INSERT INTO vault_fts(vault_fts) VALUES ('rebuild');
DELETE FROM session_memories;
INSERT INTO session_fts(session_fts) VALUES ('rebuild');

-- Triggers to keep FTS in sync
CREATE TRIGGER IF NOT EXISTS session_ai AFTER INSERT ON session_memories BEGIN
    INSERT INTO session_fts(rowid, key, content, tags) VALUES (new.id, new.key, new.content, new.tags);
END;
CREATE TRIGGER IF NOT EXISTS session_ad AFTER DELETE ON session_memories BEGIN
    INSERT INTO session_fts(session_fts, rowid, key, content, tags) VALUES('delete', old.id, old.key, old.content, old.tags);
END;
CREATE TRIGGER IF NOT EXISTS session_au AFTER UPDATE ON session_memories BEGIN
    INSERT INTO session_fts(session_fts, rowid, key, content, tags) VALUES('delete', old.id, old.key, old.content, old.tags);
    INSERT INTO session_fts(rowid, key, content, tags) VALUES (new.id, new.key, new.content, new.tags);
END;
CREATE TRIGGER IF NOT EXISTS vault_ai AFTER INSERT ON vault_memories BEGIN
    INSERT INTO vault_fts(rowid, key, content, tags) VALUES (new.id, new.key, new.content, new.tags);
END;
CREATE TRIGGER IF NOT EXISTS vault_ad AFTER DELETE ON vault_memories BEGIN
    INSERT INTO vault_fts(vault_fts, rowid, key, content, tags) VALUES('delete', old.id, old.key, old.content, old.tags);
END;
CREATE TRIGGER IF NOT EXISTS vault_au AFTER UPDATE ON vault_memories BEGIN
    INSERT INTO vault_fts(vault_fts, rowid, key, content, tags) VALUES('delete', old.id, old.key, old.content, old.tags);
    INSERT INTO vault_fts(rowid, key, content, tags) VALUES (new.id, new.key, new.content, new.tags);
END;

-- What search needs beyond the spec stands in tables of its own.

-- Plain words, stemmed; other scripts spaced out and camelCase taken apart by search/fts_query.py before they come here.
CREATE VIRTUAL TABLE session_words USING fts5(
    key, content, tags, parts,
    content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE vault_words USING fts5(
    key, content, tags, parts,
    content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
-- A word in the key counts twice, a piece of a camelCase word half.
INSERT INTO session_words(session_words, rank) VALUES ('rank', 'bm25(2.0, 1.0, 1.0, 0.5)');
INSERT INTO vault_words(vault_words, rank) VALUES ('rank', 'bm25(2.0, 1.0, 1.0, 0.5)');

-- storage.tidy merges an index as soon as two pieces of the same size lie about.
INSERT INTO session_words(session_words, rank) VALUES ('usermerge', 2);
INSERT INTO vault_words(vault_words, rank) VALUES ('usermerge', 2);

-- Tags by name: json_each over every row takes 290 ms at a million memories, this 0.02.
CREATE TABLE session_tags (
    tag       TEXT    NOT NULL,
    memory_id INTEGER NOT NULL REFERENCES session_memories(id) ON DELETE CASCADE,
    PRIMARY KEY (tag, memory_id)
) WITHOUT ROWID;
CREATE INDEX idx_session_tags_memory ON session_tags(memory_id);
CREATE TABLE vault_tags (
    tag       TEXT    NOT NULL,
    memory_id INTEGER NOT NULL REFERENCES vault_memories(id) ON DELETE CASCADE,
    PRIMARY KEY (tag, memory_id)
) WITHOUT ROWID;
CREATE INDEX idx_vault_tags_memory ON vault_tags(memory_id);

-- When a session's memory was last overwritten; the spec's table has no column for it.
CREATE TABLE session_updates (
    memory_id  INTEGER PRIMARY KEY REFERENCES session_memories(id) ON DELETE CASCADE,
    updated_at TEXT NOT NULL
);

-- A number that grows with every embedding set, changed or removed, so that each process can follow with its
-- packed copy of the vectors. A memory without an embedding has no row until it gets one.
CREATE TABLE vector_changes (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_id INTEGER NOT NULL UNIQUE
);

INSERT INTO vector_changes(memory_id) SELECT id FROM vault_memories WHERE embedding IS NOT NULL;

CREATE TRIGGER session_words_ad AFTER DELETE ON session_memories BEGIN
    DELETE FROM session_words WHERE rowid = old.id;
END;
CREATE TRIGGER session_words_au AFTER UPDATE ON session_memories BEGIN
    DELETE FROM session_words WHERE rowid = old.id;
END;
CREATE TRIGGER vault_words_au AFTER UPDATE ON vault_memories BEGIN
    DELETE FROM vault_words WHERE rowid = old.id;
END;
CREATE TRIGGER vault_words_ad AFTER DELETE ON vault_memories BEGIN
    DELETE FROM vault_words WHERE rowid = old.id;
END;
CREATE TRIGGER vector_ai AFTER INSERT ON vault_memories WHEN new.embedding IS NOT NULL BEGIN
    INSERT INTO vector_changes(memory_id) VALUES (new.id);
END;
CREATE TRIGGER vector_au AFTER UPDATE OF embedding ON vault_memories WHEN new.embedding IS NOT old.embedding BEGIN
    DELETE FROM vector_changes WHERE memory_id = new.id;
    INSERT INTO vector_changes(memory_id) VALUES (new.id);
END;
CREATE TRIGGER vector_ad AFTER DELETE ON vault_memories WHEN old.embedding IS NOT NULL BEGIN
    DELETE FROM vector_changes WHERE memory_id = old.id;
    INSERT INTO vector_changes(memory_id) VALUES (old.id);
END;
