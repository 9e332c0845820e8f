-- The schema of the graph's specification, to the letter. IF NOT EXISTS lets a file made by another implementation of the
-- specification be adopted; adoption.py has removed its full-text tables and triggers by now.

-- Entities: nodes in the knowledge graph
CREATE TABLE IF NOT EXISTS entities (
    id          TEXT PRIMARY KEY,                          -- UUID v4
    name        TEXT NOT NULL,
    entity_type TEXT NOT NULL,                             -- e.g., "person", "technology", "concept"
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),
    updated_at  TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at  TEXT NULL                                  -- NULL = active, timestamp = soft-deleted
);

-- Observations: facts/notes attached to entities
CREATE TABLE IF NOT EXISTS observations (
    id          TEXT PRIMARY KEY,                          -- UUID v4
    entity_id   TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    content     TEXT NOT NULL,
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at  TEXT NULL
);

-- Relations: directed edges between entities (active voice)
CREATE TABLE IF NOT EXISTS relations (
    id              TEXT PRIMARY KEY,                      -- UUID v4
    from_entity     TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    to_entity       TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    relation_type   TEXT NOT NULL,                         -- active voice: "uses", "depends_on", "manages"
    created_at      TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at      TEXT NULL
);

-- FTS5 virtual tables for full-text search
CREATE VIRTUAL TABLE entities_fts USING fts5(
    name,
    entity_type,
    content='entities',
    content_rowid='rowid'
);

CREATE VIRTUAL TABLE observations_fts USING fts5(
    content,
    content='observations',
    content_rowid='rowid'
);

-- Triggers to keep FTS5 in sync
CREATE TRIGGER entities_ai AFTER INSERT ON entities BEGIN
    INSERT INTO entities_fts(rowid, name, entity_type) VALUES (new.rowid, new.name, new.entity_type);
END;
CREATE TRIGGER entities_ad AFTER DELETE ON entities BEGIN
    INSERT INTO entities_fts(entities_fts, rowid, name, entity_type) VALUES('delete', old.rowid, old.name, old.entity_type);
END;
CREATE TRIGGER entities_au AFTER UPDATE ON entities BEGIN
    INSERT INTO entities_fts(entities_fts, rowid, name, entity_type) VALUES('delete', old.rowid, old.name, old.entity_type);
    INSERT INTO entities_fts(rowid, name, entity_type) VALUES (new.rowid, new.name, new.entity_type);
END;

CREATE TRIGGER observations_ai AFTER INSERT ON observations BEGIN
    INSERT INTO observations_fts(rowid, content) VALUES (new.rowid, new.content);
END;
CREATE TRIGGER observations_ad AFTER DELETE ON observations BEGIN
    INSERT INTO observations_fts(observations_fts, rowid, content) VALUES('delete', old.rowid, old.content);
END;
CREATE TRIGGER observations_au AFTER UPDATE ON observations BEGIN
    INSERT INTO observations_fts(observations_fts, rowid, content) VALUES('delete', old.rowid, old.content);
    INSERT INTO observations_fts(rowid, content) VALUES (new.rowid, new.content);
END;

-- Partial indexes for efficient queries on active (non-deleted) records
CREATE INDEX IF NOT EXISTS idx_entities_active ON entities(name, entity_type) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_entities_type ON entities(entity_type) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_observations_entity ON observations(entity_id) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_relations_from ON relations(from_entity) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_relations_to ON relations(to_entity) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_relations_type ON relations(relation_type) WHERE deleted_at IS NULL;

INSERT INTO entities_fts(entities_fts) VALUES ('rebuild');
INSERT INTO observations_fts(observations_fts) VALUES ('rebuild');

-- What we need beyond the spec stands beside its tables.

-- One active entity per name, one active observation of a text, one active relation of a kind.
CREATE UNIQUE INDEX idx_entities_one_active ON entities(name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX idx_observations_one_active ON observations(entity_id, content) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX idx_relations_one_active
    ON relations(from_entity, to_entity, relation_type) WHERE deleted_at IS NULL;

-- Plain words, stemmed; other scripts spaced out and camelCase taken apart by search/fts_query.py before they come here.
-- A row for each active entity and for each active observation; which it is, `indexed` says. (The rowids of the spec's
-- tables will not do: VACUUM may change them.)
CREATE TABLE indexed (
    number         INTEGER PRIMARY KEY,
    entity_id      TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    observation_id TEXT UNIQUE REFERENCES observations(id) ON DELETE CASCADE  -- NULL: the entity itself
);
CREATE UNIQUE INDEX idx_indexed_entity ON indexed(entity_id) WHERE observation_id IS NULL;
CREATE INDEX idx_indexed_by_entity ON indexed(entity_id);

CREATE VIRTUAL TABLE graph_words USING fts5(
    name, entity_type, content, parts,
    content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
INSERT INTO graph_words(graph_words, rank) VALUES ('rank', 'bm25(2.0, 1.0, 1.0, 0.5)');
INSERT INTO graph_words(graph_words, rank) VALUES ('usermerge', 2);

CREATE TRIGGER indexed_ad AFTER DELETE ON indexed BEGIN
    DELETE FROM graph_words WHERE rowid = old.number;
END;
CREATE TRIGGER indexed_entities_au AFTER UPDATE OF deleted_at ON entities WHEN new.deleted_at IS NOT NULL BEGIN
    DELETE FROM indexed WHERE entity_id = new.id;
END;
CREATE TRIGGER indexed_observations_au AFTER UPDATE OF deleted_at ON observations WHEN new.deleted_at IS NOT NULL BEGIN
    DELETE FROM indexed WHERE observation_id = new.id;
END;
