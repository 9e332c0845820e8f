-- What a tenant has several of, such as projects, is a tenant of its own: TENANT/PART. No other transaction sees it.
CREATE TABLE tenant_parts (
    tenant tenant_id,
    part   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, part)
);

-- What SQLite has and PostgreSQL has not.
CREATE FUNCTION json_texts(texts text[]) RETURNS text LANGUAGE sql IMMUTABLE RETURN array_to_json(texts)::text;
CREATE FUNCTION json_texts(texts json[]) RETURNS text LANGUAGE sql IMMUTABLE RETURN array_to_json(texts)::text;
CREATE AGGREGATE json_group_array(text) (SFUNC = array_append, STYPE = text[], INITCOND = '{}', FINALFUNC = json_texts);
CREATE AGGREGATE json_group_array(json) (SFUNC = array_append, STYPE = json[], INITCOND = '{}', FINALFUNC = json_texts);
CREATE AGGREGATE total(bigint) (SFUNC = int8pl, STYPE = bigint, INITCOND = '0');
-- For times of other programs, which do not write here.
CREATE FUNCTION strftime(form text, at text) RETURNS text LANGUAGE sql IMMUTABLE RETURN at;
-- A text may be longer than a key of an index.
CREATE FUNCTION text_hash(whole text) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN sha256(convert_to(whole, 'UTF8'));
