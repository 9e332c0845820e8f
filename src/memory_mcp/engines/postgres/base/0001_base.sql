CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
CREATE EXTENSION IF NOT EXISTS btree_gin WITH SCHEMA public;

-- The column that leads every key. No statement names it: a transaction sets memory.tenant, row-level security filters by
-- it, and new rows get it. After a transaction the setting is '' and not NULL, so '' is refused, too.
CREATE DOMAIN tenant_id AS text COLLATE "C" DEFAULT current_setting('memory.tenant', true) NOT NULL CHECK (VALUE <> '');

-- The last number of each kind of row that a tenant has: SQLite's AUTOINCREMENT. Numbers have no gaps, since a search keeps
-- a byte for each.
CREATE TABLE last_numbers (
    tenant tenant_id,
    name   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);  -- an update stays on its page

CREATE FUNCTION next_number(counted text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    INSERT INTO memory.last_numbers (name, number) VALUES (counted, 1)
    ON CONFLICT (tenant, name) DO UPDATE SET number = last_numbers.number + 1 RETURNING number
$$;

-- What SQLite has and PostgreSQL has not. Storages are written for both.
CREATE FUNCTION json_each(texts text) RETURNS TABLE (key bigint, value text) LANGUAGE sql IMMUTABLE ROWS 20 AS $$
    SELECT one.position - 1, one.value FROM json_array_elements_text(texts::json) WITH ORDINALITY AS one(value, position)
$$;
CREATE FUNCTION instr(whole text, part text) RETURNS int LANGUAGE sql IMMUTABLE RETURN strpos(whole, part);
CREATE FUNCTION json_field(object text, name text) RETURNS text LANGUAGE sql IMMUTABLE RETURN object::json ->> name;
CREATE FUNCTION json_part(object text, name text) RETURNS text LANGUAGE sql IMMUTABLE RETURN (object::json -> name)::text;
CREATE OPERATOR ->> (LEFTARG = text, RIGHTARG = text, FUNCTION = json_field);
CREATE OPERATOR -> (LEFTARG = text, RIGHTARG = text, FUNCTION = json_part);

-- How many texts each full-text index has, and how many words they have together: for bm25.
CREATE TABLE word_totals (
    tenant tenant_id,
    name   text COLLATE "C" NOT NULL,  -- of the table with the words
    texts  bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);

CREATE FUNCTION count_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO memory.word_totals (name, texts, tokens) VALUES (TG_TABLE_NAME, 1, new.length)
        ON CONFLICT (tenant, name) DO UPDATE SET texts = word_totals.texts + 1, tokens = word_totals.tokens + excluded.tokens;
    ELSE
        UPDATE memory.word_totals SET texts = texts - 1, tokens = tokens - old.length WHERE name = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
