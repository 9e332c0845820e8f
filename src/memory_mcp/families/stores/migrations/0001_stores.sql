-- What the markdown files of all stores say, so that they need not all be read. A cache: it can be deleted at any time.
CREATE TABLE stores (
    number INTEGER PRIMARY KEY,
    folder TEXT NOT NULL UNIQUE  -- where the store lies
);

CREATE TABLE folders (
    number      INTEGER PRIMARY KEY,
    store       INTEGER NOT NULL REFERENCES stores(number) ON DELETE CASCADE,
    path        TEXT NOT NULL,   -- inside the store; '' is its top
    fingerprint TEXT,            -- of what lay in it when its memories were read; another mark: look again
    UNIQUE (store, path)
);

CREATE TABLE memories (
    number         INTEGER PRIMARY KEY,
    store          INTEGER NOT NULL REFERENCES stores(number) ON DELETE CASCADE,
    folder         INTEGER NOT NULL REFERENCES folders(number) ON DELETE CASCADE,
    file           TEXT NOT NULL,     -- its name on disk
    is_settled     INTEGER NOT NULL,  -- 0: it had changed just before it was read; read it again
    mtime_ns       INTEGER NOT NULL,  -- of the file when it was read
    size           INTEGER NOT NULL,
    inode          TEXT NOT NULL,     -- wider than 63 bits on some systems
    path           TEXT NOT NULL,     -- inside the store, without .md
    created_at     TEXT,
    updated_at     TEXT,
    expires_at     TEXT,
    updated_ms     INTEGER,           -- the same since 1970, to be compared: people write times in many ways
    expires_ms     INTEGER,
    tags           TEXT NOT NULL,     -- JSON
    token_estimate INTEGER NOT NULL,
    summary        TEXT NOT NULL,
    UNIQUE (folder, file)
);

CREATE INDEX memories_by_recency ON memories (store, updated_ms DESC, mtime_ns DESC);
CREATE INDEX memories_by_expiry ON memories (store, expires_ms) WHERE expires_ms IS NOT NULL;
