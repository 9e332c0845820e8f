-- Owned by access/.
CREATE TABLE users (
    id          TEXT PRIMARY KEY,           -- 'local' is the person whose data directory this is
    created_at  TEXT NOT NULL
) STRICT;

CREATE TABLE keys (
    id           TEXT PRIMARY KEY,          -- the 12 characters after mmcp_; how a presented key is looked up
    user_id      TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    key_prefix   TEXT NOT NULL,             -- first 13 characters of the raw key, for show only
    secret_hash  TEXT NOT NULL,             -- bcrypt of the secret; the raw key is kept nowhere
    scopes       TEXT NOT NULL,             -- JSON array
    families     TEXT NOT NULL,             -- JSON array; empty means all
    made_by      TEXT NOT NULL CHECK (made_by IN ('first-start', 'person')),
    created_at   TEXT NOT NULL,
    expires_at   TEXT,
    revoked_at   TEXT,
    last_used_at TEXT                       -- noted once a minute at most
) STRICT;

-- Owned by sessions/.
CREATE TABLE servers (
    id         TEXT PRIMARY KEY,            -- servers/<id>.lock is held by the process for as long as it lives
    persists   INTEGER NOT NULL,            -- 1: its sessions stay behind on purpose
    started_at TEXT NOT NULL
) STRICT;

CREATE TABLE held_sessions (
    server_id     TEXT NOT NULL REFERENCES servers(id) ON DELETE CASCADE,
    connection_id TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    session_id    TEXT NOT NULL,
    PRIMARY KEY (server_id, connection_id, user_id, session_id)
) STRICT;

CREATE INDEX idx_held_sessions_session ON held_sessions(user_id, session_id);
