"""Tables and columns: listed, created, widened, dropped, renamed."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256

from memory_mcp.engines.chdb.client import MAX_ATTEMPTS, EngineError, EngineLine, Interrupted
from memory_mcp.engines.chdb.frames import UNFINISHED_COPY
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.chdb.sql_policy import DATABASE
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.families.portals.inference import KEY, WELL_KNOWN
from memory_mcp.families.portals.model import METADATA, Column, NewColumn, Table
from memory_mcp.families.portals.storage.expressions import quote

STAGED_PREFIX = "_import_"  # of the names of tables that an import has not finished
RESTORED = "restored"  # the database that a portal file is opened in


def tables(line: EngineLine) -> list[Table]:
    """All of them, but not the one that says what the portal is."""
    columns: dict[str, list[Column]] = {}
    for row in line.rows(
        "SELECT table, name, type, is_in_primary_key FROM system.columns WHERE database = 'portal' "
        "AND NOT startsWith(table, '_') ORDER BY table, position"
    ):
        columns.setdefault(row["table"], []).append(Column(row["name"], row["type"], bool(row["is_in_primary_key"])))
    sizes = line.rows(
        """
        SELECT name, toUInt64(ifNull(total_rows, 0)) AS rows, toUInt64(ifNull(total_bytes, 0)) AS bytes
        FROM system.tables WHERE database = 'portal' AND NOT startsWith(name, '_') ORDER BY name
        SETTINGS output_format_json_quote_64bit_integers = 0
        """
    )
    # One that has come or gone between the two statements is left out.
    return [
        Table(row["name"], row["rows"], row["bytes"], columns[row["name"]]) for row in sizes if row["name"] in columns
    ]


def create_table(line: EngineLine, name: str, columns: Sequence[NewColumn]) -> None:
    cannot = ("Nullable", "Array", "JSON")
    has_key = any(column.name == KEY and not column.type.startswith(cannot) for column in columns)
    defined = ", ".join(_definition(column) for column in columns)
    order = KEY if has_key else "tuple()"
    line.run(f"CREATE TABLE IF NOT EXISTS {quote(name)} ({defined}) ENGINE = MergeTree ORDER BY {order}")


def has_default(line: EngineLine, table: str, column: str) -> bool:
    return bool(
        line.rows(
            "SELECT 1 FROM system.columns WHERE database = 'portal' AND table = {table:String} "
            "AND name = {column:String} AND default_kind <> ''",
            {"table": table, "column": column},
        )
    )


def add_columns(line: EngineLine, table: str, columns: Sequence[NewColumn]) -> None:
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS {_definition(column)}" for column in columns)
    line.run(f"ALTER TABLE {quote(table)} {added}")


def modify_columns(line: EngineLine, table: str, types: Mapping[str, str]) -> None:
    """Give columns other types, to which all their values can be converted."""
    modified = ", ".join(f"MODIFY COLUMN {quote(name)} {kind}" for name, kind in types.items())
    line.run(f"ALTER TABLE {quote(table)} {modified} SETTINGS mutations_sync = 2")


def drop_columns(line: EngineLine, table: str, names: Iterable[str]) -> None:
    dropped = ", ".join(f"DROP COLUMN IF EXISTS {quote(name)}" for name in names)
    line.run(f"ALTER TABLE {quote(table)} {dropped}")


def drop_table(line: EngineLine, table: str) -> None:
    line.run(f"DROP TABLE IF EXISTS {quote(table)} SYNC")


@contextmanager
def widen_table(line: EngineLine, table: str, known: Table | None, wanted: Sequence[NewColumn]) -> Iterator[None]:
    """A table with the columns that are wanted, made if it is not known. As it was, if the block fails for whatever
    reason: a limit and an engine that does not stay up are reasons, too."""
    try:
        if known is None:
            create_table(line, table, wanted)
        elif wanted:
            add_columns(line, table, wanted)
        yield
    except (EngineError, AppError):
        with suppress(EngineError, AppError):  # the first error is the one that is raised
            if known is None:
                drop_table(line, table)
            elif wanted:
                drop_columns(line, table, [column.name for column in wanted])
        raise


def statement(line: EngineLine, table: str) -> str:
    """The CREATE TABLE of a table."""
    return line.run(f"SHOW CREATE TABLE {quote(table)}").decode().strip()


def _definition(column: NewColumn) -> str:
    return f"{quote(column.name)} {column.type}" + (f" DEFAULT {column.default}" if column.default else "")


def defaults(line: EngineLine, table: str) -> dict[str, str]:
    """What columns get where nothing is given, of those that this server makes."""
    ours = {column.default for columns in WELL_KNOWN.values() for column in columns if column.default}
    rows = line.rows(
        "SELECT name, default_expression AS value FROM system.columns "
        "WHERE database = 'portal' AND table = {table:String} AND default_kind = 'DEFAULT'",
        {"table": table},
    )
    return {row["name"]: row["value"] for row in rows if row["value"] in ours}


def create_like(line: EngineLine, new: str, table: str) -> None:
    line.run(f"CREATE TABLE IF NOT EXISTS {quote(new)} AS {quote(table)}")


def move_rows(line: EngineLine, table: str, source: str) -> None:
    """Give a table all rows of one that is made like it. They are moved: sent again, there is nothing left to give."""
    for partition in partitions(line, source):  # one, unless a file has brought a table with more
        line.run(f"ALTER TABLE {quote(source)} MOVE PARTITION ID {literal(partition)} TO TABLE {quote(table)}")


def partitions(line: EngineLine, table: str) -> list[str]:
    rows = line.rows(
        "SELECT DISTINCT partition_id FROM system.parts WHERE active AND database = 'portal' AND table = {t:String}",
        {"t": table},
    )
    return [row["partition_id"] for row in rows]


def row_count(line: EngineLine, table: str, database: str = DATABASE) -> int:
    return int(line.run(f"SELECT count() FROM {database}.{quote(table)}").decode())


def drop_unfinished(line: EngineLine) -> None:
    """Drop the tables that deletions and imports have not finished because their server stopped. The caller holds the
    portal's lock, and no import is in its last step."""
    sql = "SELECT name FROM system.tables WHERE database = 'portal' AND startsWith(name, {prefix:String})"
    for prefix in (UNFINISHED_COPY, STAGED_PREFIX):
        for row in line.rows(sql, {"prefix": prefix}):
            drop_table(line, row["name"])
    line.run(f"DROP DATABASE IF EXISTS {RESTORED} SYNC")


def uncompressed_bytes(line: EngineLine, table: str) -> int:
    """How many bytes the values of a table take up uncompressed, as its parts say."""
    (row,) = line.rows(
        "SELECT toUInt64(sum(data_uncompressed_bytes)) AS bytes FROM system.parts "
        "WHERE active AND database = 'portal' AND table = {table:String} "
        "SETTINGS output_format_json_quote_64bit_integers = 0",
        {"table": table},
    )
    return int(row["bytes"])


def link_rows(line: EngineLine, table: str, target: str) -> None:
    """Give `target`, which is made like `table`, the rows of it. Their files are shared, not copied."""
    for partition in partitions(line, table):
        line.run(f"ALTER TABLE {quote(target)} REPLACE PARTITION ID {literal(partition)} FROM {quote(table)}")


def table_uuid(line: EngineLine, table: str) -> str | None:
    """The id of a table, which stays when the table is renamed; None if no table has this name."""
    rows = line.rows(
        "SELECT toString(uuid) AS uuid FROM system.tables WHERE database = 'portal' AND name = {table:String}",
        {"table": table},
    )
    return str(rows[0]["uuid"]) if rows else None


def put_in_place(line: EngineLine, staged: str, uuid: str, table: str) -> None:
    """Give a staged table its name, in one step. A table that had the name gets that of the staged one.

    Does nothing if the staged table has its name already."""
    for _ in range(MAX_ATTEMPTS):
        there = table_uuid(line, table)
        if there == uuid or table_uuid(line, staged) != uuid:
            return
        try:
            if there is None:
                line.run_once(f"RENAME TABLE {quote(staged)} TO {quote(table)}")
            else:
                line.run_once(f"EXCHANGE TABLES {quote(staged)} AND {quote(table)}")
        except Interrupted:
            continue  # only the uuids say whether it was carried out
    raise Unavailable("The engine of this portal does not stay up. Look at the log; the next call goes on with it.")


def checksum(line: EngineLine) -> str:
    """Of the data as it lies on disk: the same after the file was opened elsewhere."""
    rows = line.rows(
        f"""
        SELECT table, hash_of_uncompressed_files AS hash FROM system.parts
        WHERE database = 'portal' AND active AND table <> '{METADATA}' ORDER BY table, hash
        """
    )
    return sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
