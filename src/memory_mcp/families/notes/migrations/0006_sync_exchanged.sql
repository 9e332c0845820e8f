-- The latest stamp that was sent to the hub or came from it, in milliseconds: nothing up to it is ever stamped again,
-- for the hub has a record with that stamp and could give it out once more.
ALTER TABLE sync_node ADD COLUMN exchanged_ms INTEGER NOT NULL DEFAULT 0;
UPDATE sync_node SET exchanged_ms = coalesce((
    SELECT max(CAST(stamp AS INTEGER)) FROM (
        SELECT id, stamp FROM sync_fields JOIN notes ON notes.seq = note_seq
        UNION ALL SELECT id, stamp FROM sync_tombstones
    ) WHERE id NOT IN (SELECT note_id FROM sync_outbox) OR substr(stamp, 23) <> (SELECT node FROM sync_node)
), 0);
