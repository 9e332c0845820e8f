"""Rows: inserted, counted, deleted, read."""

import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from memory_mcp.engines.chdb.client import MAX_ATTEMPTS, EngineError, EngineLine, Interrupted
from memory_mcp.engines.chdb.frames import UNFINISHED_COPY
from memory_mcp.engines.chdb.sql_policy import DATABASE
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.address import RowRange
from memory_mcp.families.portals.model import Record, Table
from memory_mcp.families.portals.storage.conditions import Condition
from memory_mcp.families.portals.storage.expressions import STRICT_SETTINGS, UNKNOWN_TABLE, quote
from memory_mcp.families.portals.storage.table_definitions import create_like, drop_table, row_count


def insert(line: EngineLine, table: str, records: Sequence[Record], rows_before: int) -> None:
    """All of them or none, once. The caller holds the portal's lock, and passes how many rows there are."""
    settings = ", ".join(f"{name} = {value}" for name, value in STRICT_SETTINGS.items())
    data = json.dumps(records, ensure_ascii=False, separators=(",", ":"))  # at once: three times as fast as one by one
    for _ in range(MAX_ATTEMPTS):
        try:
            line.run_once(
                f"INSERT INTO {quote(table)} SETTINGS {settings}, date_time_input_format = 'best_effort' "
                "FORMAT JSONEachRow",
                data.encode(),
            )
        except Interrupted:
            # A token under which they land once (insert_deduplication_token) is no help: the engine notes it before
            # the rows, and one killed in between would have us believe that they are there.
            if row_count(line, table) > rows_before:
                return
        else:
            return
    raise Unavailable("The engine of this portal does not stay up. Look at the log; nothing was written.")


def count(line: EngineLine, table: str, where: "Condition") -> int:
    (row,) = line.rows(
        f"SELECT toUInt64(count()) AS count FROM {quote(table)} WHERE {where.sql} "
        "SETTINGS output_format_json_quote_64bit_integers = 0",
        where.values,
    )
    return int(row["count"])


def delete(line: EngineLine, table: str, where: "Condition") -> None:
    """Replace a table by a copy without the rows that match.

    A mutation (DELETE, ALTER TABLE … DELETE) would leave the values of the condition in a file, and the rows in parts
    that the engine removes later.
    """
    names = ", ".join(map(quote, _insertable_columns(line, table)))
    # One thread, so that rows without a key stay in their order.
    replace_rows(
        line,
        table,
        f"""
        ({names}) SELECT {names} FROM {quote(table)} WHERE NOT ifNull({where.sql}, 0)
        SETTINGS max_threads = 1, max_insert_threads = 1, max_partitions_per_insert_block = 0
        """,
        where.values,
    )


def replace_rows(line: EngineLine, table: str, rows: str, parameters: dict[str, Any]) -> None:
    """Replace a table in one step by one that is made like it and has other rows. The former one is gone from the disk
    when this returns.

    `rows` is what follows INSERT INTO. If the engine ends meanwhile, this begins again: the next engine drops the
    unfinished copy. So `rows` must give the same when it is run on its own result.
    """
    for _ in range(MAX_ATTEMPTS):
        copy = f"{UNFINISHED_COPY}{uuid4().hex}"
        create_like(line, copy, table)
        try:
            line.run_once(f"INSERT INTO {quote(copy)} {rows}", parameters=parameters)
            line.run_once(f"EXCHANGE TABLES {quote(copy)} AND {quote(table)}")
        except Interrupted:
            continue
        except EngineError as exc:
            if exc.code != UNKNOWN_TABLE:  # of a copy that the next engine has dropped
                raise
        else:
            return
        finally:
            drop_table(line, copy)
    raise Unavailable("The engine of this portal does not stay up. Look at the log, and see what is still there.")


def _insertable_columns(line: EngineLine, table: str) -> list[str]:
    """Those that are stored and not computed."""
    rows = line.rows(
        "SELECT name FROM system.columns WHERE database = 'portal' AND table = {table:String} "
        "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS', 'EPHEMERAL') ORDER BY position",
        {"table": table},
    )
    return [row["name"] for row in rows]


def page(line: EngineLine, table: Table, wanted: RowRange) -> tuple[list[Record], bool]:
    """Some rows of a table, as a resource shows them, and whether the engine left out rows that were too large."""
    moment = time_column(table)
    conditions = ["1"]
    if moment and wanted.since:
        conditions.append(f"{quote(moment)} >= {{since:DateTime64(3)}}")
    if moment and wanted.until:
        conditions.append(f"{quote(moment)} < {{until:DateTime64(3)}}")
    given = {name: value for name, value in (("since", wanted.since), ("until", wanted.until)) if value and moment}
    found = line.query(
        f"""
        SELECT * FROM {quote(table.name)} WHERE {" AND ".join(conditions)}
        ORDER BY {_order(table, wanted.order or moment)}
        LIMIT {{limit:UInt64}} OFFSET {{offset:UInt64}}
        """,
        {**given, "limit": wanted.limit, "offset": wanted.offset},
        field="uri",
    )
    names = [column["name"] for column in found["meta"]]
    return [dict(zip(names, row, strict=True)) for row in found["data"]], found["isCut"]


def _order(table: Table, wanted: str | None) -> str:
    """By a column, with a minus for the last first, then by the key and all others: no row is on two pages."""
    direction = " DESC" if wanted and wanted.startswith("-") else ""
    first = wanted.removeprefix("-") if wanted else None
    rest = sorted((column for column in table.columns if column.name != first), key=lambda column: not column.primary)
    parts = [f"{quote(first)}{direction}"] if first else []
    for column in rest:
        is_plain = not re.search("JSON|Dynamic|Variant|Map|Object", column.type)
        parts.append(quote(column.name) if is_plain else f"toString({quote(column.name)})")
    return ", ".join(parts)


def time_column(table: Table) -> str | None:
    """The column that says when: `timestamp`, `created_at`, or the first with a time in it."""
    moments = [column.name for column in table.columns if "DateTime" in column.type]
    return next((name for name in ("timestamp", "created_at") if name in moments), moments[0] if moments else None)


def whole_table(table: str) -> str:
    """The query of a caller who wants all of a table."""
    return f"SELECT * FROM {quote(table)}"


def fill_table(line: EngineLine, table: str, statement: str, database: str = DATABASE) -> None:
    """Insert into a table that is empty and that no other call uses. If it is interrupted, it begins again
    once: the engine may have ended because of another call."""
    try:
        line.run_once(statement)
    except Interrupted:
        line.run(f"TRUNCATE TABLE {database}.{quote(table)}")
        line.run_once(statement)
