"""Rows: inserted, counted, deleted, read."""

import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from memory_mcp.engines.chdb.frames import MARK_COLUMN, UNFINISHED_COPY
from memory_mcp.engines.portal_engine import MAX_ATTEMPTS, EngineError, EngineInterrupted, PortalEngine
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.address import RowRange
from memory_mcp.families.portals.model import Record, Table
from memory_mcp.families.portals.storage.conditions import Condition
from memory_mcp.families.portals.storage.expressions import (
    COLUMN_TWICE,
    NO_SUCH_COLUMN,
    STRICT_SETTINGS,
    UNKNOWN_TABLE,
    quote,
    quote_table,
)
from memory_mcp.families.portals.storage.row_marks import ALLOW_MARKS, add_marks
from memory_mcp.families.portals.storage.table_definitions import create_like, drop_table, row_count


def insert(engine: PortalEngine, table: str, records: Sequence[Record], mark: int | None = None) -> int:
    """All of them or none, once, with a mark if the table can have marks. Returns how many rows the table has now. The
    caller holds the portal's lock."""
    try:
        return _insert_once(engine, table, records, mark)
    except EngineError as exc:
        if mark is None or exc.code not in (NO_SUCH_COLUMN, COLUMN_TWICE):
            raise
    # The table is from a version of this program that marked no rows, or has a column of this name itself.
    return _insert_once(engine, table, records, mark if add_marks(engine, table) else None)


def _insert_once(engine: PortalEngine, table: str, records: Sequence[Record], mark: int | None) -> int:
    settings = ", ".join(f"{name} = {value}" for name, value in STRICT_SETTINGS.items())
    columns = ""
    if mark is not None:
        records = [{**record, MARK_COLUMN: mark} for record in records]
        columns, settings = f"(*, {MARK_COLUMN})", f"{settings}, {ALLOW_MARKS}"
    data = json.dumps(records, ensure_ascii=False, separators=(",", ":"))  # at once: three times as fast as one by one
    # By the engine: the portal's description lacks the last rows of a server that was killed.
    rows_before = row_count(engine, table)
    for _ in range(MAX_ATTEMPTS):
        try:
            engine.run_once(
                f"INSERT INTO {quote(table)} {columns} SETTINGS {settings}, date_time_input_format = 'best_effort' "
                "FORMAT JSONEachRow",
                data.encode(),
            )
        except EngineInterrupted:
            # insert_deduplication_token does not help: the engine stores the token before the rows, so an engine that
            # is killed in between makes the rows seem to be stored.
            if (rows := row_count(engine, table)) > rows_before:
                return rows
        else:
            return rows_before + len(records)
    raise Unavailable("The engine of this portal does not stay up. Look at the log; nothing was written.")


def count(engine: PortalEngine, table: str, where: "Condition") -> int:
    (row,) = engine.rows(
        f"SELECT toUInt64(count()) AS count FROM {quote(table)} WHERE {where.sql} "
        "SETTINGS output_format_json_quote_64bit_integers = 0",
        where.values,
    )
    return int(row["count"])


def delete(engine: PortalEngine, table: str, where: "Condition") -> None:
    """Replace a table by a copy without the rows that match.

    A mutation (DELETE, ALTER TABLE … DELETE) would leave the values of the condition in a file, and the rows in parts
    that the engine removes later.
    """
    replace_table(engine, table, f"NOT ifNull({where.sql}, 0)", where.values)


def replace_table(engine: PortalEngine, table: str, kept: str, parameters: dict[str, Any]) -> None:
    """Replace a table by a copy with the rows for which an expression is true."""
    names = ", ".join(map(quote, _insertable_columns(engine, table)))
    # One thread, so that rows without a key stay in their order.
    replace_rows(
        engine,
        table,
        f"""
        ({names}) SELECT {names} FROM {quote(table)} WHERE {kept}
        SETTINGS max_threads = 1, max_insert_threads = 1, max_partitions_per_insert_block = 0, {ALLOW_MARKS}
        """,
        parameters,
    )


def replace_rows(engine: PortalEngine, table: str, rows: str, parameters: dict[str, Any]) -> None:
    """Replace a table in one step by one that is made like it and has other rows. The former one is gone from the disk
    when this returns.

    `rows` is what follows INSERT INTO. If the engine ends meanwhile, this begins again: the next engine drops the
    unfinished copy. So `rows` must give the same when it is run on its own result.
    """
    for _ in range(MAX_ATTEMPTS):
        copy = f"{UNFINISHED_COPY}{uuid4().hex}"
        create_like(engine, copy, table)
        try:
            engine.run_once(f"INSERT INTO {quote(copy)} {rows}", parameters=parameters)
            engine.run_once(f"EXCHANGE TABLES {quote(copy)} AND {quote(table)}")
        except EngineInterrupted:
            continue
        except EngineError as exc:
            if exc.code != UNKNOWN_TABLE:  # of a copy that the next engine has dropped
                raise
        else:
            return
        finally:
            drop_table(engine, copy)
    raise Unavailable("The engine of this portal does not stay up. Look at the log, and see what is still there.")


def _insertable_columns(engine: PortalEngine, table: str) -> list[str]:
    """Those that are stored and not computed, and the one that says which write a row is from."""
    rows = engine.rows(
        """
        SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String}
            AND (default_kind NOT IN ('MATERIALIZED', 'ALIAS', 'EPHEMERAL') OR name = {mark:String})
        ORDER BY position
        """,
        {"table": table, "mark": MARK_COLUMN},
    )
    return [row["name"] for row in rows]


def page(engine: PortalEngine, table: Table, wanted: RowRange) -> tuple[list[Record], bool]:
    """Some rows of a table, as a resource shows them, and whether rows were left out because they are too large."""
    moment = time_column(table)
    conditions = ["1"]
    if moment and wanted.since:
        conditions.append(f"{quote(moment)} >= {{since:DateTime64(3)}}")
    if moment and wanted.until:
        conditions.append(f"{quote(moment)} < {{until:DateTime64(3)}}")
    given = {name: value for name, value in (("since", wanted.since), ("until", wanted.until)) if value and moment}
    found = engine.query(
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


def fill_table(engine: PortalEngine, table: str, statement: str, database: str | None = None) -> None:
    """Insert into a table that is empty and that no other call uses. If it is interrupted, it begins again
    once: the engine may have ended because of another call."""
    try:
        engine.run_once(statement)
    except EngineInterrupted:
        engine.run(f"TRUNCATE TABLE {quote_table(table, database)}")
        engine.run_once(statement)
