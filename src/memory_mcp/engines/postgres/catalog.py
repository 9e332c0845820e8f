"""The tables of a kind of data, for copying their rows."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from graphlib import TopologicalSorter

from memory_mcp.engines.row_copy import CopiedTable
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import Read

_COLUMNS = """
    SELECT c.relname::text, a.attname::text, a.atttypid = 'vector'::regtype,
        coalesce(pg_get_expr(d.adbin, d.adrelid), '') LIKE '%next_number(%'
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity = '' AND a.attname <> 'tenant'
    ORDER BY c.relname, a.attnum
"""
_KEYS = """
    SELECT c.relname::text, array_agg(a.attname::text ORDER BY place)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
    CROSS JOIN LATERAL unnest(i.indkey::int[]) WITH ORDINALITY AS part(number, place)
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = part.number
    WHERE c.relnamespace = CAST(:schema AS regnamespace) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
    GROUP BY c.relname, i.indexrelid, i.indisprimary ORDER BY i.indisprimary DESC, i.indexrelid
"""
_REFERENCES = """
    SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
    WHERE contype = 'f' AND connamespace = CAST(:schema AS regnamespace) AND conrelid <> confrelid
"""
_INVALID_INDEXES = """
    SELECT i.indexrelid::regclass::text FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE starts_with(n.nspname, 'memory') AND NOT (i.indisvalid AND i.indisready)
"""
_WRONG_COUNTS = """
    WITH texts AS (SELECT length, tsvector_to_array(words) AS words FROM {view}),
    counted (word, texts) AS (
        SELECT word, texts FROM word_counts WHERE name = :name
        UNION ALL
        SELECT unnest(tsvector_to_array(words)), texts FROM word_changes WHERE name = :name
        UNION ALL
        SELECT unnest(words), -1 FROM texts
    )
    SELECT 1 WHERE EXISTS (SELECT 1 FROM counted GROUP BY word HAVING sum(texts) <> 0)
        OR (SELECT count(*) FROM texts) <> (SELECT coalesce(sum(texts), 0) FROM word_totals WHERE name = :name)
        OR (SELECT coalesce(sum(length), 0) FROM texts)
            <> (SELECT coalesce(sum(tokens), 0) FROM word_totals WHERE name = :name)
"""
UNPROTECTED_TABLES = """
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant'
    WHERE (n.nspname = 'memory' OR starts_with(n.nspname, 'memory_')) AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition AND NOT (
            c.relrowsecurity AND (c.relforcerowsecurity OR right(c.relname, 5) = '_rows')
            -- one policy of row_security.sql, and none beside it that shows the application more rows
            AND (
                SELECT array_agg(
                    polname = 'own' AND polcmd = '*'
                    AND pg_get_expr(polqual, polrelid) LIKE '%current_setting(''memory.tenant''%'
                    AND pg_get_expr(polwithcheck, polrelid) LIKE '%current_setting(''memory.tenant''%'
                    AND pg_get_expr(polqual, polrelid) || pg_get_expr(polwithcheck, polrelid) NOT LIKE '% OR %'
                )
                FROM pg_policy WHERE polrelid = c.oid AND polpermissive
                    AND polroles && ARRAY[0, (SELECT oid FROM pg_roles WHERE rolname = 'memory_mcp_app')]::oid[]
            ) IS NOT DISTINCT FROM ARRAY[true]
        )
    ORDER BY 1
"""
"""Those that would show a user the rows of other users, or no user any rows."""


class RowNumbers:
    """Last numbers in PostgreSQL."""

    def last_number(self, tx: Read, table: str) -> int:
        found = tx.one("SELECT number FROM last_numbers WHERE name = :name", {"name": table})
        return int(found[0]) if found else 0

    def set_last_number(self, tx: Read, table: str, number: int) -> None:
        tx.all(
            """
            INSERT INTO last_numbers (name, number) VALUES (:name, :number)
            ON CONFLICT (name) DO UPDATE SET number = excluded.number
            """,
            {"name": table, "number": number},
        )


def copied_tables(tx: Read, tables: TableSet, derived: Collection[str] = ()) -> list[CopiedTable]:
    """Those with rows of their own, which are not in `derived`, nor words of a full-text index. Tables that others
    refer to come first. The transaction's search path is that of `tables`."""
    schema = {"schema": tables.schema}
    columns: dict[str, list[str]] = defaultdict(list)
    vectors, numbered = defaultdict[str, set[str]](set), set[str]()
    for table, column, is_vector, is_numbered in tx.all(_COLUMNS, schema):
        if table not in derived and not table.endswith("_rows"):
            columns[table].append(column)
            if is_vector:
                vectors[table].add(column)
            if is_numbered:
                numbered.add(table)
    keys = _keys(tx, schema, columns)
    return [
        CopiedTable(table, tuple(columns[table]), keys[table], frozenset(vectors[table]), table in numbered)
        for table in _ordered(tx.all(_REFERENCES, schema), columns)
    ]


def has_rows(tx: Read, tables: TableSet) -> bool:
    return any(tx.all(f"SELECT 1 FROM {table.name} LIMIT 1") for table in copied_tables(tx, tables))


def invalid_indexes(tx: Read) -> list[str]:
    return [name for (name,) in tx.all(_INVALID_INDEXES)]


def has_exact_counts(tx: Read, tables: TableSet) -> bool:
    """Whether the stored counts of words and texts are those of the full-text indexes."""
    return not any(
        tx.all(_WRONG_COUNTS.format(view=table.removesuffix("_rows")), {"name": table})
        for table in _word_tables(tx, tables)
    )


def clear_words(tx: Read, tables: TableSet) -> None:
    """Empty the full-text indexes. Their counts go first, so that those of each deleted text need no change."""
    for table in _word_tables(tx, tables):
        for counts in ("word_totals", "word_changes", "word_counts"):
            tx.all(f"DELETE FROM {counts} WHERE name = :name", {"name": table})
        tx.all(f"DELETE FROM {table}")


def merge_word_changes(tx: Read, tables: TableSet) -> None:
    """Merge the changes of stored counts after many texts were written, so that the next write need not."""
    for table in _word_tables(tx, tables):
        tx.all("SELECT merge_word_changes(current_setting('memory.tenant'), :name)", {"name": table})


def add_part(tx: Read, part: str) -> None:
    """Add a part of a user's rows, unless it is there."""
    tx.all("INSERT INTO tenant_parts (part) VALUES (:part) ON CONFLICT (part) DO NOTHING", {"part": part})


def add_markers(tx: Read, tables: TableSet) -> None:
    """Add the rows that stand for a part, in tables that have nothing but the tenant."""
    for table in _marker_tables(tx, tables):
        tx.all(f"INSERT INTO {table} DEFAULT VALUES ON CONFLICT DO NOTHING")


def _word_tables(tx: Read, tables: TableSet) -> list[str]:
    sql = """
        SELECT relname::text FROM pg_class
        WHERE relnamespace = CAST(:schema AS regnamespace) AND relkind = 'r' AND right(relname, 5) = '_rows'
    """
    return [name for (name,) in tx.all(sql, {"schema": tables.schema})]


def _marker_tables(tx: Read, tables: TableSet) -> list[str]:
    sql = """
        SELECT c.relname::text FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relkind = 'r' GROUP BY 1 HAVING count(*) = 1
    """
    return [name for (name,) in tx.all(sql, {"schema": tables.schema})]


def _keys(tx: Read, schema: dict[str, str], columns: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Of each table, the first unique key whose columns are copied."""
    found: dict[str, tuple[str, ...]] = {}
    for table, names in tx.all(_KEYS, schema):
        key = tuple(name for name in names if name != "tenant")
        if table in columns and table not in found and key and set(key) <= set(columns[table]):
            found[table] = key
    return found


def _ordered(references: Sequence[tuple[str, ...]], columns: dict[str, list[str]]) -> list[str]:
    sorter = TopologicalSorter({table: set[str]() for table in columns})
    for table, referenced in references:
        if table in columns and referenced in columns:
            sorter.add(table, referenced)
    return list(sorter.static_order())
