-- How many texts contain each word: for bm25, and to know which words of a query are common. A GIN index has no counts, so
-- each text with a word would be visited. A text that is inserted or deleted adds one row to word_changes; when there are 64
-- of an index, they are merged into word_counts. The sum of both is exact.
CREATE TABLE word_counts (
    tenant tenant_id,
    name  text COLLATE "C" NOT NULL,  -- of the table with the words
    word  text COLLATE "C" NOT NULL,
    texts bigint           NOT NULL,
    PRIMARY KEY (tenant, name, word)
) WITH (fillfactor = 70);

CREATE TABLE word_changes (
    tenant tenant_id,
    name  text COLLATE "C" NOT NULL,
    id    bigint           NOT NULL GENERATED ALWAYS AS IDENTITY,
    texts smallint         NOT NULL,  -- 1 for a text that was inserted, -1 for a deleted one
    words tsvector         NOT NULL,  -- without positions
    PRIMARY KEY (tenant, name, id)
);

-- Of the texts that are there. A write that is under way ends first.
DO $$
DECLARE indexed record;
BEGIN
    FOR indexed IN
        SELECT tgrelid::regclass AS place, c.relname AS name FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid
        WHERE tgfoid = 'memory.count_words()'::regprocedure
    LOOP
        EXECUTE format('LOCK TABLE %s IN SHARE MODE', indexed.place);
        EXECUTE format(
            'INSERT INTO memory.word_counts (tenant, name, word, texts)
             SELECT tenant, %L, one.word, count(*) FROM %s CROSS JOIN LATERAL unnest(tsvector_to_array(words)) AS one(word)
             GROUP BY tenant, one.word', indexed.name, indexed.place);
    END LOOP;
END $$;

ALTER TABLE word_totals ADD COLUMN changes bigint NOT NULL DEFAULT 0;  -- rows in word_changes

-- Words that no text contains any more are removed. Writers of one tenant do not meet here: each holds the tenant's lock until its transaction ends.
CREATE FUNCTION merge_word_changes(of_tenant text, of_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE unused text[];
BEGIN
    WITH merged AS (
        DELETE FROM memory.word_changes WHERE tenant = of_tenant AND name = of_name RETURNING texts, words
    ), changed AS (
        INSERT INTO memory.word_counts (tenant, name, word, texts)
        SELECT of_tenant, of_name, one.word, sum(merged.texts)
        FROM merged CROSS JOIN LATERAL unnest(tsvector_to_array(merged.words)) AS one(word)
        GROUP BY one.word HAVING sum(merged.texts) <> 0 ORDER BY one.word
        ON CONFLICT (tenant, name, word) DO UPDATE SET texts = word_counts.texts + excluded.texts
        RETURNING word, texts
    )
    SELECT array_agg(word) INTO unused FROM changed WHERE texts <= 0;
    IF unused IS NOT NULL THEN
        DELETE FROM memory.word_counts WHERE tenant = of_tenant AND name = of_name AND word = ANY (unused);
    END IF;
    UPDATE memory.word_totals SET changes = 0 WHERE tenant = of_tenant AND name = of_name;
END $$;

-- A transaction merges after 64 changes, then after 128, 256 and so on: what it has changed before is found more slowly each
-- time. The next transaction merges what it left.
CREATE OR REPLACE FUNCTION count_words() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    row record := coalesce(new, old);
    sign int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
    left_texts bigint;
    unmerged bigint;
    merges int;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO memory.word_totals (tenant, name, texts, tokens, changes)
        VALUES (new.tenant, TG_TABLE_NAME, 1, new.length, 1)
        ON CONFLICT (tenant, name) DO UPDATE
        SET texts = word_totals.texts + 1, tokens = word_totals.tokens + excluded.tokens, changes = word_totals.changes + 1
        RETURNING texts, changes INTO left_texts, unmerged;
    ELSE
        UPDATE memory.word_totals SET texts = texts - 1, tokens = tokens - old.length, changes = changes + 1
        WHERE tenant = old.tenant AND name = TG_TABLE_NAME
        RETURNING texts, changes INTO left_texts, unmerged;
        IF NOT FOUND THEN
            RETURN NULL;  -- the counts were deleted before
        END IF;
    END IF;
    IF left_texts = 0 THEN
        DELETE FROM memory.word_changes WHERE tenant = row.tenant AND name = TG_TABLE_NAME;
        DELETE FROM memory.word_counts WHERE tenant = row.tenant AND name = TG_TABLE_NAME;
        UPDATE memory.word_totals SET changes = 0 WHERE tenant = row.tenant AND name = TG_TABLE_NAME;
        RETURN NULL;
    END IF;
    INSERT INTO memory.word_changes (tenant, name, texts, words) VALUES (row.tenant, TG_TABLE_NAME, sign, strip(row.words));
    IF unmerged >= 64 THEN
        merges := coalesce(nullif(current_setting('memory.word_merges', true), ''), '0');
        IF unmerged >= 64 * 2::bigint ^ merges THEN
            PERFORM memory.merge_word_changes(row.tenant, TG_TABLE_NAME);
            PERFORM set_config('memory.word_merges', (merges + 1)::text, true);
        END IF;
    END IF;
    RETURN NULL;
END $$;
