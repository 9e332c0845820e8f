-- The tables of projects as the SQLite migrations project/0001 to 0003 make them, for all projects together. Each project is a
-- part of its tenant (engines/postgres/base/0002_parts.sql), so `tenant` is TENANT/PROJECT here. `rowid` is what SQLite has in
-- every table: the order in which rows were created.

-- A row for each project: without it no row of the project can be written, and with it all are deleted.
CREATE TABLE project (
    tenant tenant_id,
    PRIMARY KEY (tenant)
);

CREATE TABLE entities (
    tenant tenant_id,
    rowid       bigint           NOT NULL DEFAULT memory.next_number('entities'),
    id          text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    entity_type text COLLATE "C" NOT NULL,
    created_at  text COLLATE "C" NOT NULL,
    updated_at  text COLLATE "C" NOT NULL,
    deleted_at  text COLLATE "C",
    PRIMARY KEY (tenant, rowid),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant) REFERENCES project (tenant) ON DELETE CASCADE
);
CREATE UNIQUE INDEX entities_one_active ON entities (tenant, name) WHERE deleted_at IS NULL;
CREATE INDEX entities_by_update ON entities (tenant, updated_at DESC, rowid DESC) WHERE deleted_at IS NULL;

CREATE TABLE observations (
    tenant tenant_id,
    rowid      bigint           NOT NULL DEFAULT memory.next_number('observations'),
    id         text COLLATE "C" NOT NULL,
    entity_id  text COLLATE "C" NOT NULL,
    content    text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    deleted_at text COLLATE "C",
    PRIMARY KEY (tenant, rowid),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, entity_id) REFERENCES entities (tenant, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX observations_one_active ON observations (tenant, entity_id, memory.text_hash(content)) WHERE deleted_at IS NULL;
CREATE INDEX observations_by_entity ON observations (tenant, entity_id);

CREATE TABLE relations (
    tenant tenant_id,
    rowid         bigint           NOT NULL DEFAULT memory.next_number('relations'),
    id            text COLLATE "C" NOT NULL,
    from_entity   text COLLATE "C" NOT NULL,
    to_entity     text COLLATE "C" NOT NULL,
    relation_type text COLLATE "C" NOT NULL,
    created_at    text COLLATE "C" NOT NULL,
    deleted_at    text COLLATE "C",
    PRIMARY KEY (tenant, rowid),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, from_entity) REFERENCES entities (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, to_entity)   REFERENCES entities (tenant, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX relations_one_active ON relations (tenant, from_entity, to_entity, relation_type) WHERE deleted_at IS NULL;
CREATE INDEX relations_to ON relations (tenant, to_entity);

-- A row of the index of plain words stands for an entity or for an observation.
CREATE TABLE indexed (
    tenant tenant_id,
    number         bigint           NOT NULL DEFAULT memory.next_number('indexed'),
    entity_id      text COLLATE "C" NOT NULL,
    observation_id text COLLATE "C",  -- NULL: the entity itself
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, observation_id),
    FOREIGN KEY (tenant, entity_id)      REFERENCES entities (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, observation_id) REFERENCES observations (tenant, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX indexed_one_entity ON indexed (tenant, entity_id) WHERE observation_id IS NULL;
CREATE INDEX indexed_by_entity ON indexed (tenant, entity_id);

-- What is marked as deleted leaves the index of plain words, as the triggers of project/0001_project.sql do it in SQLite.
CREATE FUNCTION unindex_entity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memory_project.indexed WHERE entity_id = new.id;
    RETURN NULL;
END $$;
CREATE FUNCTION unindex_observation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memory_project.indexed WHERE observation_id = new.id;
    RETURN NULL;
END $$;
CREATE TRIGGER unindex AFTER UPDATE OF deleted_at ON entities
    FOR EACH ROW WHEN (new.deleted_at IS NOT NULL) EXECUTE FUNCTION unindex_entity();
CREATE TRIGGER unindex AFTER UPDATE OF deleted_at ON observations
    FOR EACH ROW WHEN (new.deleted_at IS NOT NULL) EXECUTE FUNCTION unindex_observation();

-- Plain words (stems) of both, and the words of each table for FTS5's syntax, as in SQLite. The letters A to D mark columns in
-- their order (engines/postgres/words.py).
DO $$
DECLARE found record;
BEGIN
    FOR found IN SELECT * FROM (VALUES
        ('graph_words', 'indexed', 'number'), ('entities_fts', 'entities', 'rowid'), ('observations_fts', 'observations', 'rowid')
    ) AS indexes(name, texts, key) LOOP
        EXECUTE format('CREATE TABLE %I (
            tenant tenant_id,
            number bigint   NOT NULL,
            length int      NOT NULL,  -- in words
            words  tsvector NOT NULL,
            PRIMARY KEY (tenant, number),
            FOREIGN KEY (tenant, number) REFERENCES %I (tenant, %I) ON DELETE CASCADE
        )', found.name || '_rows', found.texts, found.key);
        EXECUTE format('CREATE INDEX ON %I USING gin (tenant, words) WITH (fastupdate = off)', found.name || '_rows');
        EXECUTE format('CREATE TRIGGER counts AFTER INSERT OR DELETE ON %I
            FOR EACH ROW EXECUTE FUNCTION memory.count_words()', found.name || '_rows');
        EXECUTE format('CREATE VIEW %I AS SELECT number, length, words FROM %I
            WHERE tenant = (SELECT current_setting(''memory.tenant'', true))', found.name, found.name || '_rows');
    END LOOP;
END $$;
