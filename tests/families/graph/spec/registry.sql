CREATE TABLE projects (
    id          TEXT PRIMARY KEY,                          -- UUID v4
    name        TEXT NOT NULL UNIQUE,                      -- human-readable slug
    description TEXT DEFAULT '',
    db_path     TEXT NOT NULL,                             -- relative path: "projects/{id}.db"
    status      TEXT NOT NULL DEFAULT 'active'             -- active | archived
                CHECK(status IN ('active', 'archived')),
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),   -- ISO 8601
    updated_at  TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE INDEX idx_projects_status ON projects(status);
CREATE INDEX idx_projects_name ON projects(name);
