-- The journal of writes, as the SQLite migration makes it. The portals themselves are on the ClickHouse server of --portals-url,
-- or in files of one server.
CREATE TABLE portal_writes (
    tenant tenant_id,
    number     bigint           NOT NULL DEFAULT memory.next_number('portal_writes'),
    at         text COLLATE "C" NOT NULL,
    source     text COLLATE "C" NOT NULL,
    client     text COLLATE "C" NOT NULL,
    key_id     text COLLATE "C",
    key_name   text COLLATE "C",
    session_id text COLLATE "C",
    item       text COLLATE "C" NOT NULL,
    action     text COLLATE "C" NOT NULL,
    before     text COLLATE "C",
    after      text COLLATE "C",
    undo_id    text COLLATE "C",
    undoes     bigint,
    row_count  bigint,
    writer     text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        md5(quote_literal(source) || quote_literal(client) || quote_nullable(key_id) || quote_nullable(key_name))
    ) STORED,  -- a digest, since an index entry has a limit
    PRIMARY KEY (tenant, number)
);
CREATE INDEX portal_writes_by_item ON portal_writes (tenant, item, number);
CREATE INDEX portal_writes_by_writer ON portal_writes (tenant, item, writer);
CREATE INDEX portal_writes_of_deletions ON portal_writes (tenant, item, number) WHERE action = 'deleted';
CREATE INDEX portal_writes_with_copies ON portal_writes (tenant, at) WHERE before IS NOT NULL;
