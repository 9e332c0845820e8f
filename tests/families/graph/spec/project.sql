-- Entities: nodes in the knowledge graph
CREATE TABLE entities (
    id          TEXT PRIMARY KEY,                          -- UUID v4
    name        TEXT NOT NULL,
    entity_type TEXT NOT NULL,                             -- e.g., "person", "technology", "concept"
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),
    updated_at  TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at  TEXT NULL                                  -- NULL = active, timestamp = soft-deleted
);

-- Observations: facts/notes attached to entities
CREATE TABLE observations (
    id          TEXT PRIMARY KEY,                          -- UUID v4
    entity_id   TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    content     TEXT NOT NULL,
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at  TEXT NULL
);

-- Relations: directed edges between entities (active voice)
CREATE TABLE relations (
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
CREATE INDEX idx_entities_active ON entities(name, entity_type) WHERE deleted_at IS NULL;
CREATE INDEX idx_entities_type ON entities(entity_type) WHERE deleted_at IS NULL;
CREATE INDEX idx_observations_entity ON observations(entity_id) WHERE deleted_at IS NULL;
CREATE INDEX idx_relations_from ON relations(from_entity) WHERE deleted_at IS NULL;
CREATE INDEX idx_relations_to ON relations(to_entity) WHERE deleted_at IS NULL;
CREATE INDEX idx_relations_type ON relations(relation_type) WHERE deleted_at IS NULL;
