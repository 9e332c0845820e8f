-- The server's own rows: their tenant is 'server', so that no user's transaction sees them.

-- Owned by access/.
CREATE TABLE users (
    tenant        tenant_id,
    id            text COLLATE "C" NOT NULL,  -- 'local' is the person who runs the servers
    name          text COLLATE "C" NOT NULL,
    created_at    text COLLATE "C" NOT NULL,
    plan          text COLLATE "C" NOT NULL DEFAULT 'community',
    password_hash text COLLATE "C",           -- bcrypt; NULL: signs in by link only
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX users_by_name ON users (tenant, lower(name));
INSERT INTO users (tenant, id, name, created_at)
VALUES ('server', 'local', 'local', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));

CREATE TABLE keys (
    tenant       tenant_id,
    id           text COLLATE "C" NOT NULL,   -- the 12 characters after mmcp_
    user_id      text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    key_prefix   text COLLATE "C" NOT NULL,
    secret_hash  text COLLATE "C" NOT NULL,   -- bcrypt of the secret; the raw key is stored nowhere
    scopes       text COLLATE "C" NOT NULL,   -- JSON array
    families     text COLLATE "C" NOT NULL,   -- JSON array; empty means all
    made_by      text COLLATE "C" NOT NULL CHECK (made_by IN ('first-start', 'person')),
    created_at   text COLLATE "C" NOT NULL,
    expires_at   text COLLATE "C",
    revoked_at   text COLLATE "C",
    last_used_at text COLLATE "C",            -- written once a minute at most
    namespace    text COLLATE "C" NOT NULL DEFAULT 'default',
    is_confined  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, user_id) REFERENCES users (tenant, id) ON DELETE CASCADE
);
CREATE INDEX keys_by_user ON keys (tenant, user_id);

CREATE TABLE sign_in_links (
    tenant     tenant_id,
    token_hash bytea NOT NULL,                -- SHA-256 of 256 random bits
    user_id    text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, token_hash),
    FOREIGN KEY (tenant, user_id) REFERENCES users (tenant, id) ON DELETE CASCADE
);
CREATE INDEX sign_in_links_by_user ON sign_in_links (tenant, user_id);
CREATE INDEX sign_in_links_by_end ON sign_in_links (tenant, expires_at);

CREATE TABLE sign_ins (
    tenant      tenant_id,
    cookie_hash bytea NOT NULL,               -- SHA-256 of 256 random bits
    user_id     text COLLATE "C" NOT NULL,
    created_at  text COLLATE "C" NOT NULL,
    expires_at  text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, cookie_hash),
    FOREIGN KEY (tenant, user_id) REFERENCES users (tenant, id) ON DELETE CASCADE
);
CREATE INDEX sign_ins_by_user ON sign_ins (tenant, user_id);
CREATE INDEX sign_ins_by_end ON sign_ins (tenant, expires_at);

CREATE TABLE audit (
    tenant  tenant_id,
    user_id text COLLATE "C" NOT NULL,
    id      bigint NOT NULL,                  -- counts up for each user alone
    at      text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    key_id  text COLLATE "C",                 -- NULL on stdio, in the web app and on the command line
    client  text COLLATE "C" NOT NULL,
    ip      text COLLATE "C",
    details text COLLATE "C" NOT NULL,        -- JSON object
    PRIMARY KEY (tenant, user_id, id),
    FOREIGN KEY (tenant, user_id) REFERENCES users (tenant, id) ON DELETE CASCADE
);

-- Owned by access/usage/.
CREATE TABLE usage (
    tenant   tenant_id,
    user_id  text COLLATE "C" NOT NULL,
    hour     text COLLATE "C" NOT NULL,       -- '2026-11-15T14', UTC
    calls    bigint NOT NULL DEFAULT 0,
    errors   bigint NOT NULL DEFAULT 0,       -- of these calls
    notes    bigint,                          -- how many there were when the hour was last stored
    embedded bigint,                          -- of these notes
    PRIMARY KEY (tenant, user_id, hour),
    FOREIGN KEY (tenant, user_id) REFERENCES users (tenant, id) ON DELETE CASCADE
);
CREATE INDEX usage_by_hour ON usage (tenant, hour);

-- Owned by sessions/.
CREATE TABLE servers (
    tenant     tenant_id,
    id         text COLLATE "C" NOT NULL,     -- of a server, or of a relay; its lease says whether it runs
    persists   bigint NOT NULL,               -- 1: its sessions stay after their end
    started_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE held_sessions (
    tenant        tenant_id,
    server_id     text COLLATE "C" NOT NULL,
    connection_id text COLLATE "C" NOT NULL,
    user_id       text COLLATE "C" NOT NULL,
    session_id    text COLLATE "C" NOT NULL,
    is_named      bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, server_id, connection_id, user_id, session_id),
    FOREIGN KEY (tenant, server_id) REFERENCES servers (tenant, id) ON DELETE CASCADE
);
CREATE INDEX held_sessions_by_session ON held_sessions (tenant, user_id, session_id);

CREATE TABLE kept_sessions (
    tenant     tenant_id,
    user_id    text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    ended_at   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, user_id, session_id)
);
CREATE INDEX kept_sessions_by_end ON kept_sessions (tenant, ended_at);
