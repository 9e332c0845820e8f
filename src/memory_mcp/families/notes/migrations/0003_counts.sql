-- What Home shows is counted while notes are written, in the same transaction: counting 100,000 of them takes half a second.
-- Archived notes are not counted. Expired ones are, as they expire without being written; who asks takes them off.

CREATE TABLE note_counts (
    namespace TEXT    NOT NULL,
    client    TEXT    NOT NULL,  -- '': nobody knows
    notes     INTEGER NOT NULL,
    PRIMARY KEY (namespace, client)
) WITHOUT ROWID;

CREATE TABLE tag_counts (
    tag_key TEXT    PRIMARY KEY,
    tag     TEXT    NOT NULL,    -- as it was written once
    notes   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_tag_counts_top ON tag_counts(notes DESC, tag_key);

CREATE TABLE vector_counts (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    embedded INTEGER NOT NULL,   -- notes that have their vectors
    waiting  INTEGER NOT NULL    -- notes in embed_queue
);

INSERT INTO note_counts
    SELECT namespace, coalesce(client, ''), count(*) FROM notes WHERE archived = 0 GROUP BY 1, 2;
INSERT INTO tag_counts
    SELECT tag_key, max(tag), count(*) FROM note_tags
    WHERE note_seq NOT IN (SELECT seq FROM notes WHERE archived = 1) GROUP BY tag_key;
INSERT INTO vector_counts
    SELECT 1, (SELECT count(*) FROM note_vectors WHERE part = 0), (SELECT count(*) FROM embed_queue);

-- Which notes were written last.
CREATE INDEX idx_notes_updated ON notes(updated_at DESC, seq DESC) WHERE archived = 0;

-- A note comes, changes or goes. When it goes, its tags are taken off before: afterwards nobody knows if it was archived.
CREATE TRIGGER counts_notes_ai AFTER INSERT ON notes WHEN new.archived = 0 BEGIN
    INSERT INTO note_counts VALUES (new.namespace, coalesce(new.client, ''), 1)
    ON CONFLICT DO UPDATE SET notes = notes + 1;
END;
CREATE TRIGGER counts_notes_au AFTER UPDATE OF mcp_namespace, client, archived ON notes
WHEN (old.mcp_namespace, old.client, old.archived) IS NOT (new.mcp_namespace, new.client, new.archived) BEGIN
    UPDATE note_counts SET notes = notes - 1
    WHERE old.archived = 0 AND namespace = old.namespace AND client = coalesce(old.client, '');
    DELETE FROM note_counts WHERE notes = 0 AND namespace = old.namespace AND client = coalesce(old.client, '');
    INSERT INTO note_counts SELECT new.namespace, coalesce(new.client, ''), 1 WHERE new.archived = 0
    ON CONFLICT DO UPDATE SET notes = notes + 1;
END;
CREATE TRIGGER counts_notes_archived AFTER UPDATE OF archived ON notes WHEN old.archived < new.archived BEGIN
    UPDATE tag_counts SET notes = notes - 1 WHERE tag_key IN (SELECT tag_key FROM note_tags WHERE note_seq = new.seq);
    DELETE FROM tag_counts
    WHERE notes = 0 AND tag_key IN (SELECT tag_key FROM note_tags WHERE note_seq = new.seq);
END;
CREATE TRIGGER counts_notes_restored AFTER UPDATE OF archived ON notes WHEN old.archived > new.archived BEGIN
    INSERT INTO tag_counts SELECT tag_key, tag, 1 FROM note_tags WHERE note_seq = new.seq
    ON CONFLICT DO UPDATE SET notes = notes + 1;
END;
CREATE TRIGGER counts_notes_bd BEFORE DELETE ON notes WHEN old.archived = 0 BEGIN
    UPDATE note_counts SET notes = notes - 1 WHERE namespace = old.namespace AND client = coalesce(old.client, '');
    DELETE FROM note_counts WHERE notes = 0 AND namespace = old.namespace AND client = coalesce(old.client, '');
    UPDATE tag_counts SET notes = notes - 1 WHERE tag_key IN (SELECT tag_key FROM note_tags WHERE note_seq = old.seq);
    DELETE FROM tag_counts
    WHERE notes = 0 AND tag_key IN (SELECT tag_key FROM note_tags WHERE note_seq = old.seq);
END;

CREATE TRIGGER counts_tags_ai AFTER INSERT ON note_tags
WHEN (SELECT archived FROM notes WHERE seq = new.note_seq) = 0 BEGIN
    INSERT INTO tag_counts VALUES (new.tag_key, new.tag, 1)
    ON CONFLICT DO UPDATE SET notes = notes + 1, tag = max(tag, excluded.tag);
END;
CREATE TRIGGER counts_tags_ad AFTER DELETE ON note_tags
WHEN (SELECT archived FROM notes WHERE seq = old.note_seq) = 0 BEGIN
    UPDATE tag_counts SET notes = notes - 1 WHERE tag_key = old.tag_key;
    DELETE FROM tag_counts WHERE tag_key = old.tag_key AND notes = 0;
END;

CREATE TRIGGER counts_vectors_ai AFTER INSERT ON note_vectors WHEN new.part = 0 BEGIN
    UPDATE vector_counts SET embedded = embedded + 1;
END;
CREATE TRIGGER counts_vectors_ad AFTER DELETE ON note_vectors WHEN old.part = 0 BEGIN
    UPDATE vector_counts SET embedded = embedded - 1;
END;
CREATE TRIGGER counts_queue_ai AFTER INSERT ON embed_queue BEGIN
    UPDATE vector_counts SET waiting = waiting + 1;
END;
CREATE TRIGGER counts_queue_ad AFTER DELETE ON embed_queue BEGIN
    UPDATE vector_counts SET waiting = waiting - 1;
END;
