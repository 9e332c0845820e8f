-- Links that other nodes wrote, by the note they lead to: one to a note that is not here, or that lies in a namespace
-- which is not synced, waits for it.
CREATE INDEX idx_sync_fields_links ON sync_fields(field) WHERE field GLOB 'link/*' OR field GLOB 'supersedes/*';
