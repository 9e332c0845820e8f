-- The tenant is named: words that a foreign key's cascade deletes are counted with the rights of the tables' owner, and a
-- superuser who owns them sees the rows of all tenants.
CREATE OR REPLACE FUNCTION count_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO memory.word_totals (tenant, name, texts, tokens) VALUES (new.tenant, TG_TABLE_NAME, 1, new.length)
        ON CONFLICT (tenant, name) DO UPDATE SET texts = word_totals.texts + 1, tokens = word_totals.tokens + excluded.tokens;
    ELSE
        UPDATE memory.word_totals SET texts = texts - 1, tokens = tokens - old.length
        WHERE tenant = old.tenant AND name = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
