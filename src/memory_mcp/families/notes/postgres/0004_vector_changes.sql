-- The order in which vectors changed, as in SQLite: a server that has copies of a tenant's vectors reads what came after its
-- last change.
CREATE TABLE vector_changes (
    tenant tenant_id,
    seq      bigint NOT NULL DEFAULT memory.next_number('note_vector_changes'),
    note_seq bigint NOT NULL,
    PRIMARY KEY (tenant, seq),
    UNIQUE (tenant, note_seq)
);

CREATE FUNCTION record_vector_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_notes.vector_changes (note_seq) VALUES (coalesce(new.note_seq, old.note_seq))
    ON CONFLICT (tenant, note_seq) DO UPDATE SET seq = excluded.seq;
    RETURN NULL;
END $$;
CREATE TRIGGER note_vectors_inserted AFTER INSERT ON note_vectors_parts
    FOR EACH ROW WHEN (new.part = 0) EXECUTE FUNCTION record_vector_change();
CREATE TRIGGER note_vectors_deleted AFTER DELETE ON note_vectors_parts
    FOR EACH ROW WHEN (old.part = 0) EXECUTE FUNCTION record_vector_change();

-- Of the vectors that are there. Row-level security would hide them from this migration; it is on again after it.
ALTER TABLE note_vectors_parts NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memory.last_numbers NO FORCE ROW LEVEL SECURITY;
INSERT INTO vector_changes (tenant, seq, note_seq)
    SELECT tenant, row_number() OVER (PARTITION BY tenant ORDER BY note_seq), note_seq FROM note_vectors_parts WHERE part = 0;
INSERT INTO memory.last_numbers (tenant, name, number)
    SELECT tenant, 'note_vector_changes', max(seq) FROM vector_changes GROUP BY tenant;
