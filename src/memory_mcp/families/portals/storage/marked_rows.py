"""The rows of some writes: counted, copied to a file, deleted, put back."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals.storage.expressions import quote
from memory_mcp.families.portals.storage.row_marks import ALLOW_MARKS
from memory_mcp.families.portals.storage.rows import fill_table, replace_table
from memory_mcp.families.portals.storage.table_definitions import create_like, drop_table, move_rows

_WITH_MARKS = f"{MARK_COLUMN} IN {{marks:Array(UInt64)}}"
_IN_ORDER = "max_threads = 1, max_insert_threads = 1"


@dataclass(frozen=True)
class MarkedRows:
    """How many rows have a mark, and how much memory their values take up."""

    count: int
    bytes: int


def marked_rows(engine: PortalEngine, table: str, marks: Collection[int]) -> dict[int, MarkedRows]:
    """The rows of each of these marks; none of a mark that no row has. The table has marks."""
    rows = engine.rows(
        f"SELECT {MARK_COLUMN} AS mark, count() AS count, sum(byteSize(*)) AS bytes FROM {quote(table)} "
        f"WHERE {_WITH_MARKS} GROUP BY mark",
        {"marks": sorted(marks)},
    )
    return {int(row["mark"]): MarkedRows(int(row["count"]), int(row["bytes"])) for row in rows}


def copy_marked_rows(engine: PortalEngine, table: str, marks: Collection[int], path: Path) -> None:
    """Write the rows with these marks to a file, with their marks."""
    engine.run(
        f"SELECT *, {MARK_COLUMN} FROM {quote(table)} WHERE {_WITH_MARKS} "
        f"INTO OUTFILE {literal(str(path))} TRUNCATE FORMAT Native SETTINGS {_IN_ORDER}",
        {"marks": sorted(marks)},
    )


def copied_rows(engine: PortalEngine, path: Path, marks: Collection[int]) -> dict[int, int]:
    """How many rows such a file has of each of these marks; none of a mark that it does not have."""
    rows = engine.rows(
        f"SELECT {MARK_COLUMN} AS mark, count() AS count FROM {_file(path)} WHERE {_WITH_MARKS} GROUP BY mark",
        {"marks": sorted(marks)},
    )
    return {int(row["mark"]): int(row["count"]) for row in rows}


def delete_marked_rows(engine: PortalEngine, table: str, marks: Collection[int]) -> None:
    replace_table(engine, table, f"NOT {_WITH_MARKS}", {"marks": sorted(marks)})


def restore_marked_rows(engine: PortalEngine, table: str, marks: Collection[int], path: Path, staged: str) -> None:
    """Put rows from such a file back: all of them or none. `staged` is the name of a table for them meanwhile. Columns
    that the table has got since have their defaults."""
    file = _file(path)
    names = ", ".join(quote(row["name"]) for row in engine.rows(f"DESCRIBE TABLE {file}"))
    chosen = ", ".join(map(str, sorted(marks)))
    create_like(engine, staged, table)
    try:
        fill_table(
            engine,
            staged,
            f"INSERT INTO {quote(staged)} ({names}) SETTINGS {ALLOW_MARKS}, {_IN_ORDER} "
            f"SELECT {names} FROM {file} WHERE {MARK_COLUMN} IN ({chosen})",
        )
        move_rows(engine, table, staged)
    finally:
        drop_table(engine, staged)


def _file(path: Path) -> str:
    return f"file({literal(str(path))}, 'Native')"
