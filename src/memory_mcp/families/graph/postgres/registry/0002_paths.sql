-- The path of a project's file is the same in both engines, so that rows are equal after a move. Until the end of the migration
-- its owner may change the rows of all tenants.
ALTER TABLE projects NO FORCE ROW LEVEL SECURITY;
UPDATE projects SET db_path = CASE status WHEN 'active' THEN 'projects/' ELSE 'archive/' END || id || '.db';
