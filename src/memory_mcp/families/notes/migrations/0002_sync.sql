-- Sync between nodes (docs/sync.md). Triggers stamp every field of a note in a namespace that is synced, whoever
-- writes it, and put the note into the outbox in the same transaction. Elsewhere they do nothing.

-- This copy of the file, and its hybrid logical clock: the latest stamp it has given or seen.
CREATE TABLE sync_node (
    only_one  INTEGER PRIMARY KEY CHECK (only_one = 1),
    node      TEXT    NOT NULL,            -- another one when the hub finds that there are two of it
    ms        INTEGER NOT NULL DEFAULT 0,
    counter   INTEGER NOT NULL DEFAULT 0,  -- of stamps within one millisecond
    ticks     INTEGER NOT NULL DEFAULT 0,  -- add one for a new stamp
    offset_ms INTEGER NOT NULL DEFAULT 0,  -- how far the hub's clock is ahead of this computer's
    arriving  INTEGER NOT NULL DEFAULT 0,  -- 1 while changes from elsewhere are written: they are stamped already
    hub       TEXT,                        -- where the tickets are from
    ticket    TEXT,                        -- the hub's answer to the last exchange, which the next one shows
    synced_at TEXT,                        -- when everything had been exchanged
    error     TEXT                         -- why the last exchange did not end well
);
INSERT INTO sync_node (only_one, node) VALUES (1, lower(hex(randomblob(8))));

CREATE TRIGGER sync_node_ticks AFTER UPDATE OF ticks ON sync_node BEGIN
    UPDATE sync_node SET (ms, counter) = (
        SELECT CASE WHEN wall > ms THEN wall WHEN counter < 99999 THEN ms ELSE ms + 1 END,
               CASE WHEN wall > ms OR counter = 99999 THEN 0 ELSE counter + 1 END
        FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) + offset_ms AS wall)
    );
END;

-- Fixed width, so that stamps sort as text.
CREATE VIEW sync_stamp AS SELECT printf('%015d:%05d:%s', ms, counter, node) AS stamp FROM sync_node;

-- Namespaces whose notes are stamped.
CREATE TABLE sync_namespaces (
    namespace  TEXT    PRIMARY KEY,
    enabled    INTEGER NOT NULL,            -- 0: nothing leaves and nothing comes, until it is enabled again
    cursor     INTEGER NOT NULL DEFAULT 0,  -- how far the hub's changes have been taken in
    rereading  INTEGER NOT NULL DEFAULT 0,  -- 1: also those that this node sent itself, until the end is reached
    ahead      INTEGER NOT NULL DEFAULT 0,  -- how many the hub has that have not been taken in, when last asked
    enabled_at TEXT    NOT NULL,
    pushed_at  TEXT,
    pulled_at  TEXT
) WITHOUT ROWID;

-- When a field was last written, on any node. Its value is the note's own, but for links.
CREATE TABLE sync_fields (
    note_seq INTEGER NOT NULL REFERENCES notes(seq) ON DELETE CASCADE,
    field    TEXT    NOT NULL,  -- content, title, folder, namespace, archived, expires_at, tag/<key>, metadata/<key>,
                                -- link/<id>, supersedes/<id>, wikilink/<title key>; importance, without a stamp
    stamp    TEXT    NOT NULL,
    value    TEXT,              -- of a link: the other note's id, even if that note is not here (yet); of importance: its maximum
    PRIMARY KEY (note_seq, field)
) WITHOUT ROWID;
CREATE INDEX idx_sync_fields_value ON sync_fields(value) WHERE value IS NOT NULL;

-- Notes that were deleted for good stay so, whatever arrives later.
CREATE TABLE sync_tombstones (
    id        TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    stamp     TEXT NOT NULL
) WITHOUT ROWID;

-- Notes, and deleted ones, with changes that the hub has not acknowledged.
CREATE TABLE sync_outbox (
    note_id TEXT    NOT NULL UNIQUE,
    ticket  INTEGER PRIMARY KEY AUTOINCREMENT,  -- new whenever the note changes, so that an old answer is noticed
    refused TEXT                                -- what the hub has against it
);

-- Every field of every note that a node tells others of. A tag in the body (#tag) goes with the body.
CREATE VIEW sync_told AS
    SELECT seq, 'content' AS field, NULL AS value FROM notes
    UNION ALL SELECT seq, 'title', NULL FROM notes
    UNION ALL SELECT seq, 'folder', NULL FROM notes
    UNION ALL SELECT seq, 'namespace', NULL FROM notes
    UNION ALL SELECT seq, 'archived', NULL FROM notes WHERE archived
    UNION ALL SELECT seq, 'expires_at', NULL FROM notes WHERE expires_at IS NOT NULL
    UNION ALL SELECT seq, 'metadata/' || one.key, NULL FROM notes, json_each(metadata) AS one
    UNION ALL SELECT note_seq, 'tag/' || tag_key, NULL FROM note_tags
        WHERE origin = 'user' OR (origin = 'system' AND tag_key NOT LIKE 'ns/%')
    UNION ALL SELECT source_seq, kind || '/' || target.id, target.id
        FROM note_links JOIN notes AS target ON target.seq = target_seq
    UNION ALL SELECT source_seq, 'wikilink/' || link.title_key, target.id
        FROM note_wikilinks AS link JOIN notes AS target ON target.seq = target_seq;

-- The triggers. Each asks for a new stamp and writes it to the fields that changed; that puts the note into the outbox.

-- Not for what changes while a note is elsewhere: then others only learn that it went there.
CREATE TRIGGER sync_fields_ai AFTER INSERT ON sync_fields
WHEN NOT (SELECT arriving FROM sync_node) AND (
    new.field = 'namespace'
    OR (SELECT namespace FROM notes WHERE seq = new.note_seq) IN (SELECT namespace FROM sync_namespaces)
) BEGIN
    DELETE FROM sync_outbox WHERE note_id = (SELECT id FROM notes WHERE seq = new.note_seq);
    INSERT INTO sync_outbox (note_id) SELECT id FROM notes WHERE seq = new.note_seq;
END;
CREATE TRIGGER sync_fields_au AFTER UPDATE ON sync_fields
WHEN NOT (SELECT arriving FROM sync_node) AND (
    new.field = 'namespace'
    OR (SELECT namespace FROM notes WHERE seq = new.note_seq) IN (SELECT namespace FROM sync_namespaces)
) BEGIN
    DELETE FROM sync_outbox WHERE note_id = (SELECT id FROM notes WHERE seq = new.note_seq);
    INSERT INTO sync_outbox (note_id) SELECT id FROM notes WHERE seq = new.note_seq;
END;

-- Notes that are stamped: those of synced namespaces, and those that were in one, wherever they are now.
-- To be asked for one note with EXISTS: for IN, SQLite would read all of it each time.
CREATE VIEW sync_stamped AS SELECT note_seq FROM sync_fields WHERE field = 'content';

CREATE TRIGGER sync_notes_ai AFTER INSERT ON notes
WHEN new.namespace IN (SELECT namespace FROM sync_namespaces) AND NOT (SELECT arriving FROM sync_node) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp, value)
    SELECT seq, field, stamp, value FROM sync_told, sync_stamp WHERE seq = new.seq;
END;

CREATE TRIGGER sync_notes_au
AFTER UPDATE OF content, title, has_own_title, folder, mcp_namespace, archived, expires_at, metadata, importance ON notes
WHEN NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp)
    SELECT new.seq, field, stamp FROM sync_stamp, (
        SELECT 'content' AS field WHERE old.content IS NOT new.content
        UNION ALL SELECT 'title' WHERE old.has_own_title <> new.has_own_title
            OR (new.has_own_title AND old.title IS NOT new.title)
        UNION ALL SELECT 'folder' WHERE old.folder IS NOT new.folder
        UNION ALL SELECT 'namespace' WHERE old.mcp_namespace IS NOT new.mcp_namespace
        UNION ALL SELECT 'archived' WHERE old.archived IS NOT new.archived
        UNION ALL SELECT 'expires_at' WHERE old.expires_at IS NOT new.expires_at
        UNION ALL SELECT 'metadata/' || key
            FROM json_each(old.metadata) AS former FULL JOIN json_each(new.metadata) AS latter USING (key)
            WHERE former.type IS NOT latter.type OR former.value IS NOT latter.value
    ) WHERE true
    ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp;
    DELETE FROM sync_outbox WHERE note_id = new.id AND old.importance <> new.importance;
    INSERT INTO sync_outbox (note_id) SELECT new.id WHERE old.importance <> new.importance;
END;

-- A note that moves to where others see it for the first time: all of it is new to them.
CREATE TRIGGER sync_notes_moved AFTER UPDATE OF mcp_namespace ON notes
WHEN new.namespace IN (SELECT namespace FROM sync_namespaces) AND NOT (SELECT arriving FROM sync_node)
    AND NOT EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp, value)
    SELECT seq, field, stamp, value FROM sync_told, sync_stamp WHERE seq = new.seq;
END;

CREATE TRIGGER sync_notes_referenced AFTER UPDATE OF last_referenced_at ON notes
WHEN new.namespace IN (SELECT namespace FROM sync_namespaces) AND NOT (SELECT arriving FROM sync_node) BEGIN
    DELETE FROM sync_outbox WHERE note_id = new.id;
    INSERT INTO sync_outbox (note_id) VALUES (new.id);
END;

-- Also of a note that others were told of before it moved away: they have it still.
CREATE TRIGGER sync_notes_bd BEFORE DELETE ON notes
WHEN (
    old.namespace IN (SELECT namespace FROM sync_namespaces) OR EXISTS (SELECT 1 FROM sync_fields WHERE note_seq = old.seq)
) AND NOT (SELECT arriving FROM sync_node) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_tombstones (id, namespace, stamp) SELECT old.id, old.namespace, stamp FROM sync_stamp
    WHERE true ON CONFLICT (id) DO NOTHING;
    DELETE FROM sync_outbox WHERE note_id = old.id;
    INSERT INTO sync_outbox (note_id) VALUES (old.id);
END;

CREATE TRIGGER sync_tags_ai AFTER INSERT ON note_tags
WHEN (new.origin = 'user' OR (new.origin = 'system' AND new.tag_key NOT LIKE 'ns/%'))
    AND NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.note_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp) SELECT new.note_seq, 'tag/' || new.tag_key, stamp FROM sync_stamp
    WHERE true ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp;
END;
CREATE TRIGGER sync_tags_au AFTER UPDATE OF tag, origin ON note_tags
WHEN (old.tag <> new.tag OR old.origin <> new.origin)
    AND ('user' IN (old.origin, new.origin) OR ('system' IN (old.origin, new.origin) AND new.tag_key NOT LIKE 'ns/%'))
    AND NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.note_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp) SELECT new.note_seq, 'tag/' || new.tag_key, stamp FROM sync_stamp
    WHERE true ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp;
END;
CREATE TRIGGER sync_tags_ad AFTER DELETE ON note_tags
WHEN (old.origin = 'user' OR (old.origin = 'system' AND old.tag_key NOT LIKE 'ns/%'))
    AND NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = old.note_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp) SELECT old.note_seq, 'tag/' || old.tag_key, stamp FROM sync_stamp
    WHERE true ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp;
END;

CREATE TRIGGER sync_links_ai AFTER INSERT ON note_links
WHEN NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.source_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp, value)
    SELECT new.source_seq, new.kind || '/' || id, stamp, id FROM notes, sync_stamp WHERE seq = new.target_seq
    ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp, value = excluded.value;
END;
-- Not when the other note was deleted: then its row is gone by now, and the link goes with it everywhere.
CREATE TRIGGER sync_links_ad AFTER DELETE ON note_links
WHEN NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = old.source_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp, value)
    SELECT old.source_seq, old.kind || '/' || id, stamp, NULL FROM notes, sync_stamp WHERE seq = old.target_seq
    ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp, value = excluded.value;
END;

-- Which note a [[title]] means is told, since a note that is renamed later keeps the links it has; and that it means
-- none any more.
CREATE TRIGGER sync_wikilinks_au AFTER UPDATE OF target_seq ON note_wikilinks
WHEN new.target_seq IS NOT old.target_seq
    AND NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.source_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    INSERT INTO sync_fields (note_seq, field, stamp, value)
    SELECT new.source_seq, 'wikilink/' || new.title_key, stamp, (SELECT id FROM notes WHERE seq = new.target_seq)
    FROM sync_stamp WHERE true
    ON CONFLICT (note_seq, field) DO UPDATE SET stamp = excluded.stamp, value = excluded.value;
END;
-- A title that the body no longer names, or names again, starts without a meaning.
CREATE TRIGGER sync_wikilinks_ad AFTER DELETE ON note_wikilinks
WHEN NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = old.source_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    UPDATE sync_fields SET stamp = (SELECT stamp FROM sync_stamp), value = NULL
    WHERE note_seq = old.source_seq AND field = 'wikilink/' || old.title_key AND value IS NOT NULL;
END;
CREATE TRIGGER sync_wikilinks_ai AFTER INSERT ON note_wikilinks
WHEN NOT (SELECT arriving FROM sync_node) AND EXISTS (SELECT 1 FROM sync_stamped WHERE note_seq = new.source_seq) BEGIN
    UPDATE sync_node SET ticks = ticks + 1;
    UPDATE sync_fields SET stamp = (SELECT stamp FROM sync_stamp), value = NULL
    WHERE note_seq = new.source_seq AND field = 'wikilink/' || new.title_key AND value IS NOT NULL;
END;
