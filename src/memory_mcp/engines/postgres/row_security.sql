-- Run after every migration. Each table with a tenant shows the application only the rows of the transaction's tenant, and
-- nothing without one. The setting is read by a SELECT, once for a statement: otherwise the planner expects a single row for
-- a tenant that ANALYZE has not seen.
DO $$
DECLARE found record;
BEGIN
    FOR found IN SELECT nspname FROM pg_namespace WHERE nspname = 'memory' OR starts_with(nspname, 'memory_') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO memory_mcp_app', found.nspname);
        EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %I TO memory_mcp_app', found.nspname);
    END LOOP;
    FOR found IN
        SELECT c.oid::regclass AS name, right(c.relname, 5) = '_rows' AS has_words
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant'
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE (n.nspname = 'memory' OR starts_with(n.nspname, 'memory_')) AND c.relkind IN ('r', 'p')
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', found.name);
        EXECUTE format('DROP POLICY IF EXISTS own ON %s', found.name);
        EXECUTE format(
            'CREATE POLICY own ON %s USING (tenant = (SELECT current_setting(''memory.tenant'', true)))
             WITH CHECK (tenant = current_setting(''memory.tenant'', true))', found.name);
        IF found.has_words THEN
            -- Read through a view, which filters by the tenant with its owner's rights: @@ is not leakproof, so row-level
            -- security would keep the planner from the full-text index.
            EXECUTE format('REVOKE ALL ON %s FROM memory_mcp_app', found.name);
            EXECUTE format('GRANT INSERT, DELETE, SELECT (tenant, number) ON %s TO memory_mcp_app', found.name);
        ELSE
            EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', found.name);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO memory_mcp_app', found.name);
        END IF;
    END LOOP;
    FOR found IN
        SELECT c.oid::regclass AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE starts_with(n.nspname, 'memory_') AND c.relkind = 'v'
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO memory_mcp_app', found.name);
    END LOOP;
END $$;
GRANT USAGE ON SCHEMA public TO memory_mcp_app;
GRANT SELECT ON memory.schema_versions TO memory_mcp_app;
