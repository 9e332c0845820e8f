"""Tables and columns: listed, created, widened, dropped, renamed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from memory_mcp.engines.chdb.frames import MARK_COLUMN, UNFINISHED_COPY
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.chdb.sql_policy import DATABASE
from memory_mcp.engines.portal_engine import MAX_ATTEMPTS, EngineError, EngineInterrupted, PortalEngine
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.families.portals.inference import KEY, WELL_KNOWN
from memory_mcp.families.portals.model import Column, NewColumn, Table, TableSize
from memory_mcp.families.portals.storage.expressions import quote, quote_table
from memory_mcp.families.portals.storage.row_marks import mark_definition, without_marks

STAGED_PREFIX = "_import_"  # of the names of tables that an import has not finished
RESTORED = "restored"  # the database that a portal file is opened in


def tables(engine: PortalEngine) -> list[Table]:
    """All tables, except the one with the portal's metadata, without the column that says which write a row is from."""
    columns: dict[str, list[Column]] = {}
    for row in engine.rows(
        f"""
        SELECT table, name, type, is_in_primary_key FROM system.columns
        WHERE database = currentDatabase() AND NOT startsWith(table, '_')
            AND NOT (name = '{MARK_COLUMN}' AND default_kind = 'MATERIALIZED')
        ORDER BY table, position
        """
    ):
        columns.setdefault(row["table"], []).append(Column(row["name"], row["type"], bool(row["is_in_primary_key"])))
    # One that has come or gone between the two statements is left out.
    return [
        Table(size.name, size.rows, size.bytes, columns[size.name])
        for size in table_sizes(engine)
        if size.name in columns
    ]


def table_sizes(engine: PortalEngine) -> list[TableSize]:
    """Of all tables, except the one with the portal's metadata."""
    rows = engine.rows(
        """
        SELECT name, toUInt64(ifNull(total_rows, 0)) AS rows, toUInt64(ifNull(total_bytes, 0)) AS bytes
        FROM system.tables WHERE database = currentDatabase() AND NOT startsWith(name, '_') ORDER BY name
        SETTINGS output_format_json_quote_64bit_integers = 0
        """
    )
    return [TableSize(**row) for row in rows]


def create_table(engine: PortalEngine, name: str, columns: Sequence[NewColumn]) -> None:
    cannot = ("Nullable", "Array", "JSON")
    has_key = any(column.name == KEY and not column.type.startswith(cannot) for column in columns)
    defined = ", ".join(filter(None, [*map(_definition, columns), mark_definition(engine)]))
    order = KEY if has_key else "tuple()"
    engine.run(f"CREATE TABLE IF NOT EXISTS {quote(name)} ({defined}) ENGINE = MergeTree ORDER BY {order}")


def has_default(engine: PortalEngine, table: str, column: str) -> bool:
    return bool(
        engine.rows(
            "SELECT 1 FROM system.columns WHERE database = currentDatabase() AND table = {table:String} "
            "AND name = {column:String} AND default_kind <> ''",
            {"table": table, "column": column},
        )
    )


def add_columns(engine: PortalEngine, table: str, columns: Sequence[NewColumn]) -> None:
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS {_definition(column)}" for column in columns)
    engine.run(f"ALTER TABLE {quote(table)} {added}")


def modify_columns(engine: PortalEngine, table: str, types: Mapping[str, str]) -> None:
    """Give columns other types, to which all their values can be converted."""
    modified = ", ".join(f"MODIFY COLUMN {quote(name)} {kind}" for name, kind in types.items())
    engine.run(f"ALTER TABLE {quote(table)} {modified} SETTINGS mutations_sync = 2")


def drop_columns(engine: PortalEngine, table: str, names: Iterable[str]) -> None:
    dropped = ", ".join(f"DROP COLUMN IF EXISTS {quote(name)}" for name in names)
    engine.run(f"ALTER TABLE {quote(table)} {dropped}")


def drop_table(engine: PortalEngine, table: str) -> None:
    engine.run(f"DROP TABLE IF EXISTS {quote(table)} SYNC")


@contextmanager
def widen_table(engine: PortalEngine, table: str, known: Table | None, wanted: Sequence[NewColumn]) -> Iterator[None]:
    """A block in which a table has the wanted columns; it is created if it is not known. If the block fails, for any
    reason, the table is restored as it was."""
    try:
        if known is None:
            create_table(engine, table, wanted)
        elif wanted:
            add_columns(engine, table, wanted)
        yield
    except (EngineError, AppError):
        with suppress(EngineError, AppError):  # the first error is the one that is raised
            if known is None:
                drop_table(engine, table)
            elif wanted:
                drop_columns(engine, table, [column.name for column in wanted])
        raise


def statement(engine: PortalEngine, table: str) -> str:
    """The CREATE TABLE of a table, without the column that says which write a row is from. The database is called
    `portal` in it, wherever it is."""
    text = without_marks(engine.run(f"SHOW CREATE TABLE {quote(table)} FORMAT TSVRaw").decode().strip())
    return text.replace(f"CREATE TABLE {engine.database}.", f"CREATE TABLE {DATABASE}.", 1)


def _definition(column: NewColumn) -> str:
    return f"{quote(column.name)} {column.type}" + (f" DEFAULT {column.default}" if column.default else "")


def defaults(engine: PortalEngine, table: str) -> dict[str, str]:
    """The default expressions of columns, as far as this server has written them."""
    ours = {column.default for columns in WELL_KNOWN.values() for column in columns if column.default}
    rows = engine.rows(
        "SELECT name, default_expression AS value FROM system.columns "
        "WHERE database = currentDatabase() AND table = {table:String} AND default_kind = 'DEFAULT'",
        {"table": table},
    )
    return {row["name"]: row["value"] for row in rows if row["value"] in ours}


def create_like(engine: PortalEngine, new: str, table: str) -> None:
    engine.run(f"CREATE TABLE IF NOT EXISTS {quote(new)} AS {quote(table)}")


def move_rows(engine: PortalEngine, table: str, source: str) -> None:
    """Give a table all rows of one that is made like it. They are moved, so repeating the statement is harmless."""
    for partition in partitions(engine, source):  # one, unless a file has brought a table with more
        engine.run(f"ALTER TABLE {quote(source)} MOVE PARTITION ID {literal(partition)} TO TABLE {quote(table)}")


def partitions(engine: PortalEngine, table: str) -> list[str]:
    rows = engine.rows(
        "SELECT DISTINCT partition_id FROM system.parts "
        "WHERE active AND database = currentDatabase() AND table = {t:String}",
        {"t": table},
    )
    return [row["partition_id"] for row in rows]


def row_count(engine: PortalEngine, table: str, database: str | None = None) -> int:
    return int(engine.run(f"SELECT count() FROM {quote_table(table, database)}").decode())


def drop_unfinished(engine: PortalEngine) -> None:
    """Drop the tables that deletions and imports have not finished because their server stopped. The caller holds the
    portal's lock, and no import is in its last step."""
    rows = engine.rows(
        """
        SELECT name FROM system.tables
        WHERE database = currentDatabase() AND (startsWith(name, {copy:String}) OR startsWith(name, {staged:String}))
        """,
        {"copy": UNFINISHED_COPY, "staged": STAGED_PREFIX},
    )
    for row in rows:
        drop_table(engine, row["name"])
    engine.run(f"DROP DATABASE IF EXISTS {RESTORED} SYNC")


def uncompressed_bytes(engine: PortalEngine, table: str) -> int:
    """How many bytes the values of a table take up uncompressed, as its parts say."""
    (row,) = engine.rows(
        "SELECT toUInt64(sum(data_uncompressed_bytes)) AS bytes FROM system.parts "
        "WHERE active AND database = currentDatabase() AND table = {table:String} "
        "SETTINGS output_format_json_quote_64bit_integers = 0",
        {"table": table},
    )
    return int(row["bytes"])


def link_rows(engine: PortalEngine, table: str, target: str) -> None:
    """Give `target`, which is made like `table`, the rows of it. Their files are shared, not copied."""
    for partition in partitions(engine, table):
        engine.run(f"ALTER TABLE {quote(target)} REPLACE PARTITION ID {literal(partition)} FROM {quote(table)}")


def table_uuid(engine: PortalEngine, table: str) -> str | None:
    """The id of a table, which stays when the table is renamed; None if no table has this name."""
    return _table_uuids(engine, [table]).get(table)


def _table_uuids(engine: PortalEngine, tables: Sequence[str]) -> dict[str, str]:
    rows = engine.rows(
        "SELECT name, toString(uuid) AS uuid FROM system.tables "
        "WHERE database = currentDatabase() AND name IN {tables:Array(String)}",
        {"tables": list(tables)},
    )
    return {row["name"]: row["uuid"] for row in rows}


def rename_staged(engine: PortalEngine, staged: str, uuid: str, table: str) -> None:
    """Give a staged table its name, in one step. A table that had the name gets that of the staged one.

    Does nothing if the staged table has its name already."""
    for _ in range(MAX_ATTEMPTS):
        there = _table_uuids(engine, [staged, table])
        if there.get(table) == uuid or there.get(staged) != uuid:
            return
        try:
            if table in there:
                engine.run_once(f"EXCHANGE TABLES {quote(staged)} AND {quote(table)}")
            else:
                engine.run_once(f"RENAME TABLE {quote(staged)} TO {quote(table)}")
        except EngineInterrupted:
            continue  # only the uuids say whether it was carried out
        return
    raise Unavailable("The engine of this portal does not stay up. Look at the log; the next call goes on with it.")
