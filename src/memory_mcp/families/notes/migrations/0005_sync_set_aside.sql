-- Records from the hub that could not be taken in: `sync status` names them, `sync resync` asks for them again.
CREATE TABLE sync_set_aside (
    note_id   TEXT PRIMARY KEY,  -- empty: of records that name no note
    namespace TEXT,              -- which was read when it came; NULL: it came in answer to a push
    reason    TEXT NOT NULL,
    at        TEXT NOT NULL
) WITHOUT ROWID;

-- Everything is sent once more: where notes are sealed, this seals what an earlier version left open (docs/sync.md).
INSERT INTO sync_outbox (note_id)
SELECT id FROM notes WHERE namespace IN (SELECT namespace FROM sync_namespaces)
UNION ALL
SELECT id FROM sync_tombstones WHERE true
ON CONFLICT (note_id) DO NOTHING;
