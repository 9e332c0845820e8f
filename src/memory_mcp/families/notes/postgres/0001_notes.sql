-- The tables of notes as the SQLite migrations 0001 to 0006 make them, for all tenants together. The tenant leads every key;
-- no statement names it (engines/postgres/base). Words, vectors and counts have PostgreSQL's own form.

CREATE TABLE notes (
    tenant tenant_id,
    seq                bigint           NOT NULL DEFAULT memory.next_number('notes'),
    id                 text COLLATE "C" NOT NULL,
    user_id            text COLLATE "C" NOT NULL,
    mcp_namespace      text COLLATE "C" NOT NULL DEFAULT '',
    namespace          text COLLATE "C" GENERATED ALWAYS AS (CASE mcp_namespace WHEN '' THEN 'default' ELSE mcp_namespace END) STORED,
    title              text COLLATE "C" NOT NULL,
    has_own_title      smallint         NOT NULL,
    title_key          text COLLATE "C" NOT NULL,
    content            text COLLATE "C" NOT NULL,
    content_key        bytea            NOT NULL,
    folder             text COLLATE "C" NOT NULL DEFAULT '',
    tags               text COLLATE "C" NOT NULL DEFAULT '',
    importance         double precision NOT NULL DEFAULT 0.5,
    metadata           text COLLATE "C" NOT NULL DEFAULT '{}',
    source             text COLLATE "C" NOT NULL,
    client             text COLLATE "C",
    session_id         text COLLATE "C",
    created_at         text COLLATE "C" NOT NULL,
    updated_at         text COLLATE "C" NOT NULL,
    last_referenced_at text COLLATE "C",
    expires_at         text COLLATE "C",
    archived           smallint         NOT NULL DEFAULT 0,
    superseded_by      bigint,
    previous           bigint,
    version            bigint           NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, seq),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, superseded_by) REFERENCES notes (tenant, seq) ON DELETE SET NULL (superseded_by),
    FOREIGN KEY (tenant, previous)      REFERENCES notes (tenant, seq) ON DELETE SET NULL (previous)
) WITH (fillfactor = 90);
CREATE INDEX notes_by_namespace ON notes (tenant, namespace, created_at, expires_at) WHERE archived = 0;
CREATE INDEX notes_by_recency   ON notes (tenant, last_referenced_at DESC NULLS LAST, updated_at DESC, seq DESC) WHERE archived = 0;
CREATE INDEX notes_by_update    ON notes (tenant, updated_at DESC, seq DESC) WHERE archived = 0;
CREATE INDEX notes_by_title     ON notes (tenant, title_key);
CREATE INDEX notes_by_content   ON notes (tenant, content_key);
CREATE INDEX notes_by_session   ON notes (tenant, session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX notes_expiring     ON notes (tenant, expires_at)    WHERE expires_at IS NOT NULL;
CREATE INDEX notes_newer        ON notes (tenant, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX notes_previous     ON notes (tenant, previous)      WHERE previous IS NOT NULL;

CREATE TABLE note_tags (
    tenant tenant_id,
    note_seq bigint           NOT NULL,
    tag_key  text COLLATE "C" NOT NULL,
    tag      text COLLATE "C" NOT NULL,
    origin   text COLLATE "C" NOT NULL,
    position bigint           NOT NULL,
    PRIMARY KEY (tenant, tag_key, note_seq),
    FOREIGN KEY (tenant, note_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE
);
CREATE INDEX note_tags_by_note ON note_tags (tenant, note_seq, position);

CREATE TABLE note_links (
    tenant tenant_id,
    source_seq bigint           NOT NULL,
    target_seq bigint           NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, source_seq, target_seq, kind),
    FOREIGN KEY (tenant, source_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE,
    FOREIGN KEY (tenant, target_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE
);
CREATE INDEX note_links_by_target ON note_links (tenant, target_seq);

CREATE TABLE note_wikilinks (
    tenant tenant_id,
    source_seq bigint           NOT NULL,
    title_key  text COLLATE "C" NOT NULL,
    title      text COLLATE "C" NOT NULL,
    target_seq bigint,
    PRIMARY KEY (tenant, source_seq, title_key),
    FOREIGN KEY (tenant, source_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE,
    FOREIGN KEY (tenant, target_seq) REFERENCES notes (tenant, seq) ON DELETE SET NULL (target_seq)
);
CREATE INDEX note_wikilinks_by_target ON note_wikilinks (tenant, target_seq) WHERE target_seq IS NOT NULL;
CREATE INDEX note_wikilinks_dangling  ON note_wikilinks (tenant, title_key)  WHERE target_seq IS NULL;

CREATE VIEW note_edges WITH (security_invoker = true) AS
    SELECT source_seq, target_seq, kind FROM note_links
    UNION ALL
    SELECT source_seq, target_seq, 'wikilink' FROM note_wikilinks WHERE target_seq IS NOT NULL;

CREATE TABLE note_versions (
    tenant tenant_id,
    note_seq      bigint           NOT NULL,
    version       bigint           NOT NULL,
    mcp_namespace text COLLATE "C" NOT NULL,
    title         text COLLATE "C" NOT NULL,
    content       text COLLATE "C" NOT NULL,
    folder        text COLLATE "C" NOT NULL,
    tags          text COLLATE "C" NOT NULL,
    importance    double precision NOT NULL,
    metadata      text COLLATE "C" NOT NULL,
    expires_at    text COLLATE "C",
    archived      smallint         NOT NULL,
    updated_at    text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, note_seq, version),
    FOREIGN KEY (tenant, note_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE
);

-- The words of FTS5's tokenizer with their positions (engines/postgres/words.py). The letters A, B and D mark the note's own
-- text, the parts of camelCase words, and the note before it.
CREATE TABLE notes_words_rows (
    tenant tenant_id,
    number bigint   NOT NULL,
    length int      NOT NULL,  -- in words
    words  tsvector NOT NULL,
    PRIMARY KEY (tenant, number),
    FOREIGN KEY (tenant, number) REFERENCES notes (tenant, seq) ON DELETE CASCADE
);
CREATE INDEX notes_words_index ON notes_words_rows USING gin (tenant, words) WITH (fastupdate = off);
CREATE TRIGGER notes_words_counts AFTER INSERT OR DELETE ON notes_words_rows
    FOR EACH ROW EXECUTE FUNCTION memory.count_words();
CREATE VIEW notes_words AS
    SELECT number, length, words FROM notes_words_rows WHERE tenant = (SELECT current_setting('memory.tenant', true));

CREATE TABLE embedding_space (
    tenant tenant_id,
    only_one   smallint         NOT NULL CHECK (only_one = 1),
    name       text COLLATE "C" NOT NULL,
    dimensions int              NOT NULL,
    background bytea            NOT NULL,
    chosen_at  text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, only_one)
);

-- Without a number of dimensions: tenants may have different models. A search reads all vectors of a tenant, so there is no
-- index of them. Vectors of a note with the one before it (part -1) are read for few notes, and lie apart.
CREATE TABLE note_vectors (
    tenant tenant_id,
    note_seq bigint           NOT NULL,
    part     int              NOT NULL,
    vector   vector           NOT NULL,
    PRIMARY KEY (tenant, note_seq, part),
    FOREIGN KEY (tenant, note_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE
) PARTITION BY RANGE (part);
CREATE TABLE note_vectors_parts    PARTITION OF note_vectors FOR VALUES FROM (0) TO (MAXVALUE);
CREATE TABLE note_vectors_contexts PARTITION OF note_vectors FOR VALUES FROM (MINVALUE) TO (0);

CREATE TABLE embed_queue (
    tenant tenant_id,
    note_id       bigint           NOT NULL,
    ticket        bigint           NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    attempts      int              NOT NULL DEFAULT 0,
    due_at        text COLLATE "C" NOT NULL,
    claimed_by    text COLLATE "C",
    claimed_until text COLLATE "C",
    last_error    text COLLATE "C",
    PRIMARY KEY (tenant, ticket),
    UNIQUE (tenant, note_id),
    FOREIGN KEY (tenant, note_id) REFERENCES notes (tenant, seq) ON DELETE CASCADE
);

-- SQLite counts these by triggers.
CREATE VIEW note_counts WITH (security_invoker = true) AS
    SELECT namespace, coalesce(client, '') AS client, count(*) AS notes FROM notes WHERE archived = 0 GROUP BY 1, 2;
CREATE VIEW tag_counts WITH (security_invoker = true) AS
    SELECT tag_key, max(tag) AS tag, count(*) AS notes FROM note_tags
    WHERE note_seq NOT IN (SELECT seq FROM notes WHERE archived = 1) GROUP BY tag_key;
CREATE VIEW vector_counts WITH (security_invoker = true) AS
    SELECT (SELECT count(*) FROM note_vectors WHERE part = 0) AS embedded, (SELECT count(*) FROM embed_queue) AS waiting;

-- A node that syncs is not on PostgreSQL yet: these stay empty, for statements that read them.
CREATE TABLE sync_fields (
    tenant tenant_id,
    note_seq bigint,
    field    text COLLATE "C",
    stamp    text COLLATE "C" NOT NULL,
    value    text COLLATE "C",
    PRIMARY KEY (tenant, note_seq, field),
    FOREIGN KEY (tenant, note_seq) REFERENCES notes (tenant, seq) ON DELETE CASCADE
);
CREATE INDEX sync_fields_by_value ON sync_fields (tenant, value) WHERE value IS NOT NULL;
CREATE TABLE sync_tombstones (
    tenant tenant_id,
    id        text COLLATE "C",
    namespace text COLLATE "C" NOT NULL,
    stamp     text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);
