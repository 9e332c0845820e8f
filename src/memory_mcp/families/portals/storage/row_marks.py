"""Which write each row is from: a number in a column that `SELECT *` does not show, as rows have no identity of their
own. It stays with the row in merges, in copies of the table, in backups and in portal files."""

import secrets

from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals.storage.expressions import quote, quote_table

_DEFINITION = f"{MARK_COLUMN} UInt64 MATERIALIZED"
UNMARKED = 0  # of rows that another program wrote, or a version of this one that marked none
ALLOW_MARKS = "insert_allow_materialized_columns = 1"
MARK_BITS = 63  # a journal's numbers have a sign


def new_mark(engine: PortalEngine) -> int | None:
    """A number that no other write has; None if rows get none on this engine."""
    return 1 + secrets.randbelow(2**MARK_BITS - 1) if engine.marks_rows else None


def mark_definition(engine: PortalEngine) -> str:
    """The column of marks, for a new table; empty if it gets none."""
    return f"{_DEFINITION} {UNMARKED}" if engine.marks_rows else ""


def has_marks(engine: PortalEngine, table: str) -> bool:
    return _mark_kind(engine, table) == "MATERIALIZED"


def add_marks(engine: PortalEngine, table: str) -> bool:
    """Give a table the column of marks, if it lacks it. Returns whether it has it now: not if a column of its own has
    that name."""
    kind = _mark_kind(engine, table)
    if kind is None and engine.marks_rows:
        engine.run(f"ALTER TABLE {quote(table)} ADD COLUMN IF NOT EXISTS {mark_definition(engine)}")
        return True
    return kind == "MATERIALIZED"


def _mark_kind(engine: PortalEngine, table: str) -> str | None:
    """The kind of default that the column of this name has; None if there is no such column."""
    rows = engine.rows(
        "SELECT default_kind AS kind FROM system.columns "
        "WHERE database = currentDatabase() AND table = {table:String} AND name = {name:String}",
        {"table": table, "name": MARK_COLUMN},
    )
    return next((str(row["kind"]) for row in rows), None)


def mark_all(engine: PortalEngine, database: str, table: str, mark: int) -> None:
    """Give all rows of a restored table one mark, in place of those that its file brought."""
    name = quote_table(table, database)
    engine.run(
        f"ALTER TABLE {name} DROP COLUMN IF EXISTS {MARK_COLUMN}, ADD COLUMN {_DEFINITION} {mark}, "
        f"MATERIALIZE COLUMN {MARK_COLUMN} SETTINGS mutations_sync = 2"
    )
    engine.run(f"ALTER TABLE {name} MODIFY COLUMN {_DEFINITION} {UNMARKED}")


def without_marks(statement: str) -> str:
    """A CREATE TABLE as the engine writes it, with a line for each column, without the column of marks."""
    lines = statement.split("\n")
    kept = [line for line in lines if not line.strip().startswith(f"`{MARK_COLUMN}` UInt64 MATERIALIZED")]
    if len(kept) < len(lines):
        end = kept.index(")")
        kept[end - 1] = kept[end - 1].removesuffix(",")
    return "\n".join(kept)
