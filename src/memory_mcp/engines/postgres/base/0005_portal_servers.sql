-- Portals are files of one server. The directory: the servers that have such files, and whose portals are on which.
CREATE TABLE portal_servers (
    tenant tenant_id,
    id  text COLLATE "C" NOT NULL,  -- of its data directory
    url text COLLATE "C" NOT NULL,  -- where the other servers reach it
    PRIMARY KEY (tenant, id)
);
CREATE TABLE portal_users (
    tenant tenant_id,
    user_id    text COLLATE "C" NOT NULL,
    server_id  text COLLATE "C" NOT NULL,
    removed_at text COLLATE "C",  -- the user's data was deleted, but not yet the files on that server
    PRIMARY KEY (tenant, user_id)
);

-- Signs what these servers send each other: one row.
CREATE TABLE server_secrets (
    tenant tenant_id PRIMARY KEY,
    secret text COLLATE "C" NOT NULL
);
