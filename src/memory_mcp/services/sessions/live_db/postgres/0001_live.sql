-- The state of running servers. Its tenant is 'server'. Limits need not survive a crash of the database, so they are not logged.

-- Owned by access/.
CREATE UNLOGGED TABLE limits (
    tenant tenant_id,
    who    text COLLATE "C" NOT NULL,         -- a user, or an address that tries to sign in
    due    double precision NOT NULL,         -- when their next request would be on time, in seconds since 1970
    PRIMARY KEY (tenant, who)
) WITH (fillfactor = 50);
CREATE INDEX limits_by_due ON limits (tenant, due);

-- Owned by sessions/.
CREATE TABLE clients (
    tenant           tenant_id,
    id               text COLLATE "C" NOT NULL,
    server_id        text COLLATE "C" NOT NULL,
    user_id          text COLLATE "C" NOT NULL,
    key_id           text COLLATE "C",        -- NULL on stdio
    name             text COLLATE "C" NOT NULL,
    version          text COLLATE "C" NOT NULL,
    ip               text COLLATE "C",
    transport        text COLLATE "C" NOT NULL CHECK (transport IN ('stdio', 'streamable-http', 'sse')),
    protocol_version text COLLATE "C" NOT NULL,
    started_at       text COLLATE "C" NOT NULL,
    last_call_at     text COLLATE "C" NOT NULL,
    calls            bigint NOT NULL,
    is_unwanted      bigint NOT NULL DEFAULT 0,  -- 1: a user wants it disconnected
    PRIMARY KEY (tenant, id)
);
CREATE INDEX clients_by_user ON clients (tenant, user_id);
CREATE INDEX clients_by_server ON clients (tenant, server_id);

CREATE TABLE addresses (
    tenant    tenant_id,
    server_id text COLLATE "C" NOT NULL,
    url       text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, server_id)
);

-- Which servers run. On one data directory, lock files say so.
CREATE TABLE leases (
    tenant     tenant_id,
    id         text COLLATE "C" NOT NULL,     -- of a server, or of a relay whose client it serves
    pid        bigint NOT NULL,
    kind       text COLLATE "C" NOT NULL,     -- '' for a relay
    version    text COLLATE "C" NOT NULL,
    started_at text COLLATE "C" NOT NULL,
    ends_at    text COLLATE "C" NOT NULL,     -- renewed every few seconds while it runs
    PRIMARY KEY (tenant, id)
);

-- The session that a client without a connection chose with set_session_id, so that every server knows it.
CREATE TABLE chosen_sessions (
    tenant      tenant_id,
    own_session text COLLATE "C" NOT NULL,    -- made from user, key and name of the client
    session_id  text COLLATE "C" NOT NULL,
    used_at     text COLLATE "C" NOT NULL,    -- written once a minute at most
    PRIMARY KEY (tenant, own_session)
);
CREATE INDEX chosen_sessions_by_use ON chosen_sessions (tenant, used_at);
