-- As the SQLite migration 0004.
ALTER TABLE texts ADD COLUMN session_id text COLLATE "C";
ALTER TABLE texts ADD COLUMN written_at text COLLATE "C";

-- Row-level security would hide the rows from this migration; it is on again after it.
ALTER TABLE texts NO FORCE ROW LEVEL SECURITY;
ALTER TABLE text_groups NO FORCE ROW LEVEL SECURITY;
UPDATE texts SET has_facts = FALSE;
UPDATE text_groups SET version = NULL;
