-- Texts that are kept elsewhere, to be found by words and by meaning. The file is a cache: it can be deleted at any time.

-- Texts that belong together, such as those of one store or one project.
CREATE TABLE text_groups (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,  -- such as stores/diary or portals/NAMESPACE/PORTAL
    version TEXT                      -- up to which the group is indexed, where it has a version as a whole
);

CREATE TABLE texts (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT    NOT NULL UNIQUE,  -- of one version of a text: a text that changes gets another row
    group_id INTEGER NOT NULL REFERENCES text_groups(id) ON DELETE CASCADE,
    ref      TEXT    NOT NULL,         -- what opens it
    label    TEXT    NOT NULL,         -- what a hit shows as its title
    title    TEXT    NOT NULL,         -- what is searched as its title
    content  TEXT    NOT NULL
);
CREATE INDEX idx_texts_group ON texts(group_id);

CREATE TABLE text_tags (
    text_seq INTEGER NOT NULL REFERENCES texts(seq) ON DELETE CASCADE,
    tag_key  TEXT    NOT NULL,  -- the tag without regard to case
    PRIMARY KEY (tag_key, text_seq)
) WITHOUT ROWID;
CREATE INDEX idx_text_tags_text ON text_tags(text_seq);

-- Words, stemmed; other scripts spaced out and camelCase taken apart by search/fts_query.py before they come here.
CREATE VIRTUAL TABLE text_words USING fts5(
    title, content, tags, parts,
    content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
INSERT INTO text_words(text_words, rank) VALUES ('rank', 'bm25(1.0, 1.0, 1.0, 0.5)');
INSERT INTO text_words(text_words, rank) VALUES ('usermerge', 2);
CREATE TRIGGER text_words_ad AFTER DELETE ON texts BEGIN
    DELETE FROM text_words WHERE rowid = old.seq;
END;

-- The one model whose vectors are in this file. A model change empties text_vectors in the same transaction.
CREATE TABLE embedding_space (
    only_one   INTEGER PRIMARY KEY CHECK (only_one = 1),
    name       TEXT    NOT NULL,  -- such as builtin/snowflake-arctic-embed-s-int8/384
    dimensions INTEGER NOT NULL,
    background BLOB    NOT NULL,  -- vectors of sentences about nothing in particular: what an unrelated text scores
    chosen_at  TEXT    NOT NULL   -- empty: it is to be chosen again
);

-- Unit vectors, float32 little-endian, of each part of a text (0, 1, …).
CREATE TABLE text_vectors (
    text_seq INTEGER NOT NULL REFERENCES texts(seq) ON DELETE CASCADE,
    part     INTEGER NOT NULL,
    vector   BLOB    NOT NULL,
    PRIMARY KEY (text_seq, part)
);

-- Grows with every text whose vectors came or went, so that each process can follow with its packed copy.
CREATE TABLE vector_changes (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    text_seq INTEGER NOT NULL UNIQUE
);
CREATE TRIGGER text_vectors_ai AFTER INSERT ON text_vectors WHEN new.part = 0 BEGIN
    DELETE FROM vector_changes WHERE text_seq = new.text_seq;
    INSERT INTO vector_changes(text_seq) VALUES (new.text_seq);
END;
CREATE TRIGGER text_vectors_ad AFTER DELETE ON text_vectors WHEN old.part = 0 BEGIN
    DELETE FROM vector_changes WHERE text_seq = old.text_seq;
    INSERT INTO vector_changes(text_seq) VALUES (old.text_seq);
END;

-- Texts that wait for their vectors. One process at a time claims a text; the claim of a process that died expires.
CREATE TABLE embed_queue (
    text_seq      INTEGER NOT NULL UNIQUE REFERENCES texts(seq) ON DELETE CASCADE,
    ticket        INTEGER PRIMARY KEY AUTOINCREMENT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    due_at        TEXT    NOT NULL,  -- later after a failure
    claimed_by    TEXT,
    claimed_until TEXT,
    last_error    TEXT
);
CREATE INDEX idx_embed_queue_turn ON embed_queue(attempts, ticket);
