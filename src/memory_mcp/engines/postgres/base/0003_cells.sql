-- The directory: further databases, and which users' rows are in them. Those of all others are in this one.
CREATE TABLE cells (
    tenant tenant_id,
    name     text COLLATE "C" NOT NULL,
    url      text COLLATE "C" NOT NULL,
    added_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE TABLE cell_users (
    tenant tenant_id,
    user_id text COLLATE "C" NOT NULL,
    cell    text COLLATE "C" NOT NULL,  -- where the rows are; '' for this database
    target  text COLLATE "C",           -- where they are being moved
    moves   bigint NOT NULL,            -- how often they were moved
    PRIMARY KEY (tenant, user_id)
);

-- Tenants whose rows were moved away from this database, or are being moved. None of their transactions may begin here, so a
-- server that does not know of the move cannot write to the former rows.
CREATE TABLE departures (tenant tenant_id PRIMARY KEY);

CREATE FUNCTION require_present() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM memory.departures) THEN
        RAISE EXCEPTION 'the rows of this user are in another database' USING ERRCODE = 'MM001';
    END IF;
END $$;
