-- The journal of writes, as the SQLite migration makes it. The files themselves are in the folder that servers share.
CREATE TABLE store_writes (
    tenant tenant_id,
    number     bigint           NOT NULL DEFAULT memory.next_number('store_writes'),
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
    PRIMARY KEY (tenant, number)
);
CREATE INDEX store_writes_by_item ON store_writes (tenant, item, number);
CREATE INDEX store_writes_with_copies ON store_writes (tenant, at) WHERE before IS NOT NULL;
