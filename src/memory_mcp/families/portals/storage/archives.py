"""A whole portal as one file: written, restored beside the portal, and moved into it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any
from uuid import uuid4

from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import AppError
from memory_mcp.families.portals.model import FileSize, Table
from memory_mcp.families.portals.storage.expressions import quote, quote_table
from memory_mcp.families.portals.storage.row_marks import ALLOW_MARKS
from memory_mcp.families.portals.storage.rows import fill_table
from memory_mcp.families.portals.storage.table_definitions import drop_table

TABLES_AT_ONCE = 16  # that one statement reads


def checksum(engine: PortalEngine, known: Sequence[Table]) -> str:
    """A checksum of the names, columns and rows of all tables. It depends on nothing else: not on the order of the
    rows, on the files that they are in, or on the writes that they are from."""
    contents = []
    for first in range(0, len(known), TABLES_AT_ONCE):
        contents += engine.rows(" UNION ALL ".join(map(_row_hashes, known[first : first + TABLES_AT_ONCE])))
    columns = [[table.name, [column.name for column in table.columns]] for table in known]
    contents.sort(key=lambda row: str(row["name"]))
    return sha256(json.dumps([columns, contents], sort_keys=True).encode()).hexdigest()


def _row_hashes(table: Table) -> str:
    """A SELECT of how many rows a table has, and of the sum of their hashes. A hash is of a tuple, as that of a null
    alone is null, and of the JSON of values that have types of their own, as these may change in a backup."""
    dynamic = [column.name for column in table.columns if has_dynamic_columns([column.type])]
    as_json = ", ".join(f"{_as_json(name)} AS {quote(name)}" for name in dynamic)
    source = f"(SELECT * REPLACE ({as_json}) FROM {quote(table.name)})" if dynamic else quote(table.name)
    return f"SELECT {literal(table.name)} AS name, count() AS rows, sum(cityHash64(tuple(*))) AS hash FROM {source}"


def _apply_deleted_mask(engine: PortalEngine, table: str) -> None:
    """Remove rows from the disk that another program has deleted with DELETE."""
    engine.run(f"ALTER TABLE {quote(table)} APPLY DELETED MASK SETTINGS mutations_sync = 2")


def attach_portal(engine: PortalEngine, name: str, path: str) -> None:
    engine.run(f"CREATE DATABASE {name} ENGINE = Backup('portal', File({literal(path)}))")


def detach_portal(engine: PortalEngine, name: str) -> None:
    engine.run(f"DROP DATABASE IF EXISTS {name} SYNC")


_DYNAMIC_TYPE = re.compile(r"\b(?:Dynamic|JSON|Object)\b", re.IGNORECASE)  # each value has a type of its own


def remove_deleted_rows(engine: PortalEngine) -> None:
    """Remove rows from the disk that another program has deleted with DELETE, so that no backup has them."""
    with_deleted = (
        "SELECT DISTINCT table FROM system.parts "
        "WHERE database = currentDatabase() AND active AND has_lightweight_delete"
    )
    for row in engine.rows(with_deleted):
        _apply_deleted_mask(engine, row["table"])


def back_up(engine: PortalEngine, path: str, *, is_paced: bool, about: Mapping[str, Any] | None = None) -> None:
    """Write the whole portal to one file, as it is at one moment soon after the start (`has_begun_backup`). With
    `about`, which the file then says of itself, it is sealed."""
    engine.back_up(f"BACKUP DATABASE portal TO File({literal(path)})", path, is_paced=is_paced, about=about)


def has_begun_backup(engine: PortalEngine, path: str) -> bool:
    """Whether a backup that runs has noted which files it writes: what changes from now on is not in it."""
    sql = "SELECT num_files FROM system.backups WHERE endsWith(name, {name:String})"
    return any(row["num_files"] != "0" for row in engine.rows(sql, {"name": f"{literal(path)})"}))


def restore(engine: PortalEngine, path: str, database: str) -> None:
    engine.run_on_new_connection(f"RESTORE DATABASE portal AS {database} FROM File({literal(path)})")


def restored_tables(engine: PortalEngine, database: str) -> dict[str, dict[str, str]]:
    """The tables of a restored portal, each with its columns and their types."""
    rows = engine.rows(
        f"SELECT table, name, type FROM system.columns WHERE database = '{database}' AND NOT startsWith(table, '_') "
        "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY table, position"
    )
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["table"], {})[row["name"]] = row["type"]
    return found


def has_dynamic_columns(types: Iterable[str]) -> bool:
    """Whether one of these types lets each value have its own type."""
    return any(map(_DYNAMIC_TYPE.search, types))


def rewrite_dynamic_columns(engine: PortalEngine, database: str, table: str) -> None:
    """Rewrite a restored table whose columns let each value have its own type: JSON and Dynamic.

    The values go through JSON, as records from callers do, so only types of JSON values are left: the state of an
    aggregate function that hides in a Dynamic column becomes a text. Raises EngineError for values that JSON changes.
    """
    sql = "SELECT name, type FROM system.columns WHERE database = {d:String} AND table = {t:String} ORDER BY position"
    types = {row["name"]: row["type"] for row in engine.rows(sql, {"d": database, "t": table})}
    dynamic = {name: kind for name, kind in types.items() if _DYNAMIC_TYPE.search(kind)}
    if not dynamic:
        return
    rewritten = f"_rewritten_{uuid4().hex}"
    values = [_from_json(name, dynamic[name]) if name in dynamic else quote(name) for name in types]
    is_same = " AND ".join(
        f"toJSONString({_from_json(name, kind)}) = {_as_json(name)}" for name, kind in dynamic.items()
    )
    engine.run(f"CREATE TABLE IF NOT EXISTS {database}.{rewritten} AS {database}.{quote(table)}")
    fill_table(
        engine,
        rewritten,
        f"INSERT INTO {database}.{rewritten} ({', '.join(map(quote, types))}) SELECT {', '.join(values)} "
        f"FROM {database}.{quote(table)} WHERE throwIf(NOT ({is_same}), 'no JSON') = 0 "
        f"SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 1, {ALLOW_MARKS}",
        database,
    )
    engine.run(f"DROP TABLE IF EXISTS {database}.{quote(table)} SYNC")
    engine.run(f"RENAME TABLE IF EXISTS {database}.{rewritten} TO {database}.{quote(table)}")


def _as_json(name: str) -> str:
    return f"toJSONString({quote(name)})"


def _from_json(name: str, kind: str) -> str:
    """A column's values, read from their JSON as values of the column's type."""
    whole = literal(f"JSON(value {kind})")
    return f"""getSubcolumn(CAST(concat('{{"value":', {_as_json(name)}, '}}'), {whole}), 'value')"""


def restored_size(engine: PortalEngine, database: str) -> FileSize:
    """The size of a restored portal's tables: what their parts state, and the defaults that stand for the values of
    columns which a part does not have."""
    (row,) = engine.rows(
        f"""
        SELECT 0 AS columns, toUInt64(sum(rows)) AS rows, toUInt64(sum(data_uncompressed_bytes)) AS bytes,
        (SELECT count() FROM system.columns WHERE database = '{database}' AND default_expression <> ''
            AND name <> '{MARK_COLUMN}') AS defaults
        FROM system.parts WHERE active AND database = '{database}'
        SETTINGS output_format_json_quote_64bit_integers = 0
        """
    )
    default_bytes = _default_bytes(engine, database) if row.pop("defaults") else 0
    return FileSize(**{**row, "bytes": row["bytes"] + default_bytes})


def _default_bytes(engine: PortalEngine, database: str) -> int:
    (row,) = engine.rows(
        f"""
        SELECT toUInt64(sum(parts.rows * length(columns.default_expression))) AS bytes
        FROM (SELECT * FROM system.parts WHERE active AND database = '{database}') AS parts
        INNER JOIN system.columns AS columns ON columns.database = parts.database AND columns.table = parts.table
        WHERE (parts.table, parts.name, columns.name) NOT IN
        (SELECT table, name, column FROM system.parts_columns WHERE active AND database = '{database}')
        SETTINGS output_format_json_quote_64bit_integers = 0
        """
    )
    return int(row["bytes"])


def is_whole(engine: PortalEngine, table: str, database: str | None = None) -> bool:
    """Whether a table's data is as it was written: RESTORE does not check."""
    checked = engine.run(f"CHECK TABLE {quote_table(table, database)} SETTINGS check_query_single_value_result = 1")
    return checked.strip() == b"1"


@contextmanager
def adopt_restored(engine: PortalEngine, database: str, table: str) -> Iterator[None]:
    """Make a restored table one of the portal's; it is removed again if the block fails."""
    try:
        move_restored(engine, database, table, table)
        yield
    except (EngineError, AppError):
        with suppress(EngineError, AppError):  # the first error is the one that is raised
            drop_table(engine, table)
        raise


def move_restored(engine: PortalEngine, database: str, table: str, new: str) -> None:
    """Move a restored table to the portal, under another name."""
    engine.run(f"RENAME TABLE IF EXISTS {database}.{quote(table)} TO portal.{quote(new)}")


def copy_rows(
    engine: PortalEngine, database: str, table: str, target: str, columns: Sequence[str], mark: int | None
) -> None:
    """Copy rows to a table that is empty. They get the mark, if there is one."""
    names = ", ".join(map(quote, columns))
    into, chosen, settings = names, names, ""
    if mark is not None:
        into, chosen, settings = f"{names}, {MARK_COLUMN}", f"{names}, {mark}", f" SETTINGS {ALLOW_MARKS}"
    source = f"{database}.{quote(table)}"
    fill_table(engine, target, f"INSERT INTO {quote(target)} ({into}){settings} SELECT {chosen} FROM {source}")
