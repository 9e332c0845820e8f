-- The schema of the graph's specification, to the letter. IF NOT EXISTS lets a file made by another implementation of the
-- specification be adopted.
CREATE TABLE IF NOT EXISTS projects (
    id          TEXT PRIMARY KEY,                          -- UUID v4
    name        TEXT NOT NULL UNIQUE,                      -- human-readable slug
    description TEXT DEFAULT '',
    db_path     TEXT NOT NULL,                             -- relative path: "projects/{id}.db"
    status      TEXT NOT NULL DEFAULT 'active'             -- active | archived
                CHECK(status IN ('active', 'archived')),
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),   -- ISO 8601
    updated_at  TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE INDEX IF NOT EXISTS idx_projects_status ON projects(status);
CREATE INDEX IF NOT EXISTS idx_projects_name ON projects(name);

-- Ours: which project each session works in.
CREATE TABLE active_projects (
    session_id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects(id) ON DELETE CASCADE
);
