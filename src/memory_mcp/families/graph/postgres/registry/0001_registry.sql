-- The registry of projects, as registry/0001_registry.sql makes it in SQLite.
CREATE TABLE projects (
    tenant tenant_id,
    id          text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    description text COLLATE "C" DEFAULT '',
    db_path     text COLLATE "C" NOT NULL,  -- of a file in SQLite; its rows are the part `id` of the tenant here
    status      text COLLATE "C" NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    created_at  text COLLATE "C" NOT NULL,
    updated_at  text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);

-- Which project each session works in.
CREATE TABLE active_projects (
    tenant tenant_id,
    session_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, session_id),
    FOREIGN KEY (tenant, project_id) REFERENCES projects (tenant, id) ON DELETE CASCADE
);
CREATE INDEX active_projects_by_project ON active_projects (tenant, project_id);
