-- The order in which vectors changed, as in SQLite: a server that has copies of a tenant's vectors reads what came after its
-- last change.
CREATE TABLE vector_changes (
    tenant tenant_id,
    seq      bigint NOT NULL DEFAULT memory.next_number('text_vector_changes'),
    text_seq bigint NOT NULL,
    PRIMARY KEY (tenant, seq),
    UNIQUE (tenant, text_seq)
);

CREATE FUNCTION record_vector_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_recall.vector_changes (text_seq) VALUES (coalesce(new.text_seq, old.text_seq))
    ON CONFLICT (tenant, text_seq) DO UPDATE SET seq = excluded.seq;
    RETURN NULL;
END $$;
CREATE TRIGGER text_vectors_inserted AFTER INSERT ON text_vectors
    FOR EACH ROW WHEN (new.part = 0) EXECUTE FUNCTION record_vector_change();
CREATE TRIGGER text_vectors_deleted AFTER DELETE ON text_vectors
    FOR EACH ROW WHEN (old.part = 0) EXECUTE FUNCTION record_vector_change();

-- Of the vectors that are there. Row-level security would hide them from this migration; it is on again after it.
ALTER TABLE text_vectors NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memory.last_numbers NO FORCE ROW LEVEL SECURITY;
INSERT INTO vector_changes (tenant, seq, text_seq)
    SELECT tenant, row_number() OVER (PARTITION BY tenant ORDER BY text_seq), text_seq FROM text_vectors WHERE part = 0;
INSERT INTO memory.last_numbers (tenant, name, number)
    SELECT tenant, 'text_vector_changes', max(seq) FROM vector_changes GROUP BY tenant;
