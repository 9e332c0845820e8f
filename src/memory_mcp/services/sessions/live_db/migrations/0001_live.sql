-- Owned by access/.
CREATE TABLE limits (
    who TEXT PRIMARY KEY,                   -- a user, or an address that tries to sign in
    due REAL NOT NULL                       -- when their next request would be on time, in seconds since 1970
) STRICT, WITHOUT ROWID;

-- Owned by sessions/.
CREATE TABLE clients (
    id               TEXT PRIMARY KEY,
    server_id        TEXT NOT NULL,         -- servers/<id>.lock is held by its process for as long as it lives
    user_id          TEXT NOT NULL,
    key_id           TEXT,                  -- NULL on stdio
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    ip               TEXT,
    transport        TEXT NOT NULL CHECK (transport IN ('stdio', 'streamable-http', 'sse')),
    protocol_version TEXT NOT NULL,
    started_at       TEXT NOT NULL,
    last_call_at     TEXT NOT NULL,
    calls            INTEGER NOT NULL,
    is_unwanted      INTEGER NOT NULL DEFAULT 0  -- somebody wants it disconnected
) STRICT;

CREATE TABLE addresses (
    server_id TEXT PRIMARY KEY,
    url       TEXT NOT NULL                 -- where people reach it
) STRICT;

CREATE INDEX clients_by_user ON clients (user_id);
CREATE INDEX clients_by_server ON clients (server_id);
