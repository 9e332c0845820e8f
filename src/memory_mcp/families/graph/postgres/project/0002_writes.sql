-- The journal of writes, as the SQLite migration project/0004 makes it.
CREATE TABLE graph_writes (
    tenant tenant_id,
    number     bigint           NOT NULL DEFAULT memory.next_number('graph_writes'),
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
    PRIMARY KEY (tenant, number),
    FOREIGN KEY (tenant) REFERENCES project (tenant) ON DELETE CASCADE
);
CREATE INDEX graph_writes_by_item ON graph_writes (tenant, item, number);
CREATE INDEX graph_writes_with_copies ON graph_writes (tenant, at) WHERE before IS NOT NULL;
