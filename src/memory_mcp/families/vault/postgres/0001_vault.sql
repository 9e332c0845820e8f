-- The tables of the vault as the SQLite migrations 0001 and 0002 make them, for all tenants together. No other program writes
-- here, so nothing records what is not indexed yet; and vectors are compared by the database, so no process follows them.

CREATE TABLE vault_memories (
    tenant tenant_id,
    id         bigint           NOT NULL DEFAULT memory.next_number('vault_memories'),
    key        text COLLATE "C" NOT NULL,
    content    text COLLATE "C" NOT NULL,
    tags       text COLLATE "C" NOT NULL DEFAULT '[]',
    embedding  vector,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, key)
) WITH (fillfactor = 90);
CREATE INDEX vault_memories_by_update ON vault_memories (tenant, updated_at DESC, id DESC);

CREATE TABLE session_memories (
    tenant tenant_id,
    id         bigint           NOT NULL DEFAULT memory.next_number('session_memories'),
    session_id text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    content    text COLLATE "C" NOT NULL,
    tags       text COLLATE "C" NOT NULL DEFAULT '[]',
    created_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, session_id, key)
) WITH (fillfactor = 90);

CREATE TABLE session_updates (
    tenant tenant_id,
    memory_id  bigint           NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, memory_id),
    FOREIGN KEY (tenant, memory_id) REFERENCES session_memories (tenant, id) ON DELETE CASCADE
);

CREATE TABLE vault_tags (
    tenant tenant_id,
    tag       text COLLATE "C" NOT NULL,
    memory_id bigint           NOT NULL,
    PRIMARY KEY (tenant, tag, memory_id),
    FOREIGN KEY (tenant, memory_id) REFERENCES vault_memories (tenant, id) ON DELETE CASCADE
);
CREATE INDEX vault_tags_by_memory ON vault_tags (tenant, memory_id);

CREATE TABLE session_tags (
    tenant tenant_id,
    tag       text COLLATE "C" NOT NULL,
    memory_id bigint           NOT NULL,
    PRIMARY KEY (tenant, tag, memory_id),
    FOREIGN KEY (tenant, memory_id) REFERENCES session_memories (tenant, id) ON DELETE CASCADE
);
CREATE INDEX session_tags_by_memory ON session_tags (tenant, memory_id);

-- Two full-text indexes for each scope, as in SQLite: _fts for FTS5's syntax (words as they are), _words for plain words
-- (stems). The letters A to D mark key, content, tags and the parts of camelCase words (engines/postgres/words.py).
DO $$
DECLARE scope text; kind text;
BEGIN
    FOREACH scope IN ARRAY ARRAY['vault', 'session'] LOOP
        FOREACH kind IN ARRAY ARRAY['fts', 'words'] LOOP
            EXECUTE format('CREATE TABLE %I (
                tenant tenant_id,
                number bigint   NOT NULL,
                length int      NOT NULL,  -- in words
                words  tsvector NOT NULL,
                PRIMARY KEY (tenant, number),
                FOREIGN KEY (tenant, number) REFERENCES %I (tenant, id) ON DELETE CASCADE
            )', scope || '_' || kind || '_rows', scope || '_memories');
            EXECUTE format('CREATE INDEX ON %I USING gin (tenant, words) WITH (fastupdate = off)', scope || '_' || kind || '_rows');
            EXECUTE format('CREATE TRIGGER counts AFTER INSERT OR DELETE ON %I
                FOR EACH ROW EXECUTE FUNCTION memory.count_words()', scope || '_' || kind || '_rows');
            EXECUTE format('CREATE VIEW %I AS SELECT number, length, words FROM %I
                WHERE tenant = (SELECT current_setting(''memory.tenant'', true))',
                scope || '_' || kind, scope || '_' || kind || '_rows');
        END LOOP;
    END LOOP;
END $$;
