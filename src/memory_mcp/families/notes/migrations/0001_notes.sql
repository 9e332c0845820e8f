CREATE TABLE notes (
    seq                INTEGER PRIMARY KEY AUTOINCREMENT,  -- how tables and indexes in this file name a note
    id                 TEXT    NOT NULL UNIQUE,            -- UUID: how everybody else does
    user_id            TEXT    NOT NULL,
    mcp_namespace      TEXT    NOT NULL DEFAULT '',        -- empty: the namespace 'default'
    namespace          TEXT    GENERATED ALWAYS AS (CASE mcp_namespace WHEN '' THEN 'default' ELSE mcp_namespace END),
    title              TEXT    NOT NULL,
    has_own_title      INTEGER NOT NULL,                   -- 0: the title is the content's first line and follows it
    title_key          TEXT    NOT NULL,                   -- the title as [[wikilinks]] compare it
    content            TEXT    NOT NULL,                   -- markdown
    content_key        BLOB    NOT NULL,                   -- equal for equal texts, whatever their case and spacing
    folder             TEXT    NOT NULL DEFAULT '',
    tags               TEXT    NOT NULL DEFAULT '',        -- comma-separated, as note_tags has them
    importance         REAL    NOT NULL DEFAULT 0.5,       -- 0 to 1
    metadata           TEXT    NOT NULL DEFAULT '{}',      -- JSON object
    source             TEXT    NOT NULL,                   -- mcp, ui, import or sync
    client             TEXT,                               -- who wrote it first, kebab-case
    session_id         TEXT,                               -- the session it was written in
    created_at         TEXT    NOT NULL,                   -- times are ISO 8601, UTC, to the millisecond
    updated_at         TEXT    NOT NULL,
    last_referenced_at TEXT,
    expires_at         TEXT,                               -- from then on searches leave it out
    archived           INTEGER NOT NULL DEFAULT 0,         -- 1: deleted softly
    superseded_by      INTEGER REFERENCES notes(seq) ON DELETE SET NULL,
    previous           INTEGER REFERENCES notes(seq) ON DELETE SET NULL,  -- written just before, in the same session
    version            INTEGER NOT NULL DEFAULT 1
);

CREATE INDEX idx_notes_namespace ON notes(namespace, created_at, expires_at) WHERE archived = 0;
CREATE INDEX idx_notes_created   ON notes(created_at, expires_at) WHERE archived = 0;
CREATE INDEX idx_notes_recent    ON notes(last_referenced_at DESC, updated_at DESC) WHERE archived = 0;
CREATE INDEX idx_notes_recent_ns ON notes(namespace, last_referenced_at DESC, updated_at DESC) WHERE archived = 0;
CREATE INDEX idx_notes_archived  ON notes(updated_at) WHERE archived = 1;
CREATE INDEX idx_notes_title     ON notes(title_key);
CREATE INDEX idx_notes_content   ON notes(content_key);
CREATE INDEX idx_notes_session   ON notes(session_id, seq);
CREATE INDEX idx_notes_expiring  ON notes(expires_at)    WHERE expires_at IS NOT NULL;
CREATE INDEX idx_notes_newer     ON notes(superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX idx_notes_previous  ON notes(previous)      WHERE previous IS NOT NULL;

-- Every tag of every note, for filtering and counting.
CREATE TABLE note_tags (
    note_seq INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    tag_key  TEXT    NOT NULL,  -- the tag without regard to case
    tag      TEXT    NOT NULL,  -- as it was first written
    origin   TEXT    NOT NULL,  -- user, system, inline (a #tag in the body) or state (archived)
    position INTEGER NOT NULL,  -- in the note's list of tags
    PRIMARY KEY (tag_key, note_seq)
) WITHOUT ROWID;
CREATE INDEX idx_note_tags_note ON note_tags(note_seq, position);

-- Links somebody made: by memory_link ('link'), or by saying that one note replaces another ('supersedes').
CREATE TABLE note_links (
    source_seq INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    target_seq INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    kind       TEXT    NOT NULL,
    created_at TEXT    NOT NULL,
    PRIMARY KEY (source_seq, target_seq, kind)
) WITHOUT ROWID;
CREATE INDEX idx_note_links_target ON note_links(target_seq);

-- [[Titles]] in bodies. Without a target they dangle until a note of that title appears in the namespace.
CREATE TABLE note_wikilinks (
    source_seq INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    title_key  TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    target_seq INTEGER REFERENCES notes(seq) ON DELETE SET NULL,
    PRIMARY KEY (source_seq, title_key)
) WITHOUT ROWID;
CREATE INDEX idx_note_wikilinks_target   ON note_wikilinks(target_seq) WHERE target_seq IS NOT NULL;
CREATE INDEX idx_note_wikilinks_dangling ON note_wikilinks(title_key)  WHERE target_seq IS NULL;

CREATE VIEW note_edges AS
    SELECT source_seq, target_seq, kind FROM note_links
    UNION ALL
    SELECT source_seq, target_seq, 'wikilink' FROM note_wikilinks WHERE target_seq IS NOT NULL;

-- What a note said before each change.
CREATE TABLE note_versions (
    note_seq      INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    version       INTEGER NOT NULL,
    mcp_namespace TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    content       TEXT    NOT NULL,
    folder        TEXT    NOT NULL,
    tags          TEXT    NOT NULL,
    importance    REAL    NOT NULL,
    metadata      TEXT    NOT NULL,
    expires_at    TEXT,
    archived      INTEGER NOT NULL,
    updated_at    TEXT    NOT NULL,
    PRIMARY KEY (note_seq, version)
);

-- Words, stemmed; other scripts spaced out and camelCase taken apart by search/fts_query.py before they come here.
-- `context` is the text of the note written just before: an answer is often found by its question.
CREATE VIRTUAL TABLE notes_words USING fts5(
    title, content, tags, parts, context,
    content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
INSERT INTO notes_words(notes_words, rank) VALUES ('rank', 'bm25(1.0, 1.0, 1.0, 0.5, 0.5)');
INSERT INTO notes_words(notes_words, rank) VALUES ('usermerge', 2);
CREATE TRIGGER notes_words_ad AFTER DELETE ON notes BEGIN
    DELETE FROM notes_words WHERE rowid = old.seq;
END;

-- The one model whose vectors are in this file. A model change empties note_vectors in the same transaction.
CREATE TABLE embedding_space (
    only_one   INTEGER PRIMARY KEY CHECK (only_one = 1),
    name       TEXT    NOT NULL,  -- such as builtin/snowflake-arctic-embed-s-int8/384
    dimensions INTEGER NOT NULL,
    background BLOB    NOT NULL,  -- vectors of sentences about nothing in particular: what an unrelated text scores
    chosen_at  TEXT    NOT NULL
);

-- Unit vectors, float32 little-endian: of each part of a note (0, 1, …), and (-1) of the note with the one before it.
CREATE TABLE note_vectors (
    note_seq INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    part     INTEGER NOT NULL,
    vector   BLOB    NOT NULL,
    PRIMARY KEY (note_seq, part)
);

-- Grows with every note whose vectors came, changed or went, so that each process can follow with its packed copy.
CREATE TABLE vector_changes (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    note_seq INTEGER NOT NULL UNIQUE
);
CREATE TRIGGER note_vectors_ai AFTER INSERT ON note_vectors WHEN new.part = 0 BEGIN
    DELETE FROM vector_changes WHERE note_seq = new.note_seq;
    INSERT INTO vector_changes(note_seq) VALUES (new.note_seq);
END;
CREATE TRIGGER note_vectors_ad AFTER DELETE ON note_vectors WHEN old.part = 0 BEGIN
    DELETE FROM vector_changes WHERE note_seq = old.note_seq;
    INSERT INTO vector_changes(note_seq) VALUES (old.note_seq);
END;

-- Notes that wait for their vectors. One process at a time claims a note; a claim whose process died runs out.
CREATE TABLE embed_queue (
    note_id       INTEGER NOT NULL UNIQUE REFERENCES notes(seq) ON DELETE CASCADE,
    ticket        INTEGER PRIMARY KEY AUTOINCREMENT,  -- new whenever the note changes, so that stale work is noticed
    attempts      INTEGER NOT NULL DEFAULT 0,
    due_at        TEXT    NOT NULL,                   -- later after a failure
    claimed_by    TEXT,
    claimed_until TEXT,
    last_error    TEXT
);
CREATE INDEX idx_embed_queue_turn ON embed_queue(attempts, ticket);
