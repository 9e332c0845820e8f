-- Owned by access/.
INSERT OR IGNORE INTO users (id, name, created_at) VALUES ('local', 'local', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
DROP INDEX users_by_name;
CREATE UNIQUE INDEX users_by_name ON users (lower(name));
ALTER TABLE users ADD COLUMN plan TEXT NOT NULL DEFAULT 'community';  -- requests a minute, where limits are on
ALTER TABLE users ADD COLUMN password_hash TEXT;  -- bcrypt; NULL: signs in by link only

CREATE TABLE sign_in_links (
    token_hash BLOB PRIMARY KEY,            -- SHA-256 of 256 random bits
    user_id    TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    expires_at TEXT NOT NULL
) STRICT;

CREATE TABLE sign_ins (
    cookie_hash BLOB PRIMARY KEY,           -- SHA-256 of 256 random bits
    user_id     TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL
) STRICT;

CREATE TABLE audit (
    user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    id      INTEGER NOT NULL,               -- counts up for each user alone: it says nothing about others
    at      TEXT NOT NULL,
    action  TEXT NOT NULL,                  -- such as 'key_used', or the name of a tool that deleted something
    key_id  TEXT,                           -- the key it was done with; NULL on stdio, in the web app and on the command line
    client  TEXT NOT NULL,
    ip      TEXT,
    details TEXT NOT NULL,                  -- JSON object
    PRIMARY KEY (user_id, id)
) STRICT, WITHOUT ROWID;

-- Owned by access/usage/.
CREATE TABLE usage (
    user_id  TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    hour     TEXT NOT NULL,                 -- '2026-11-15T14', UTC
    calls    INTEGER NOT NULL DEFAULT 0,
    errors   INTEGER NOT NULL DEFAULT 0,    -- of these calls
    notes    INTEGER,                       -- how many there were when the hour was last looked at
    embedded INTEGER,                       -- of these notes
    PRIMARY KEY (user_id, hour)
) STRICT, WITHOUT ROWID;
