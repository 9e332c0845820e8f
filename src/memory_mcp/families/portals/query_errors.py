"""Errors of queries: each with its own code, the nearest existing name, and a suggestion."""

import re
from collections.abc import Callable, Sequence

from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.chdb.sql_policy import MAX_NAMES_SHOWN
from memory_mcp.engines.portal_engine import EngineError
from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.portals.model import Table
from memory_mcp.text.nearness import nearest_one

# Error codes of ClickHouse.
_UNKNOWN_COLUMN = {16, 47}
_UNKNOWN_FUNCTION = 46
_UNKNOWN_TABLE = 60
_TYPE_MISMATCH = {6, 27, 38, 41, 43, 44, 53, 59, 70, 72, 386}

_COLUMN = re.compile(r"There is no column `(.*?)`")
_FUNCTION = re.compile(r"Function with name `(.*?)` does not exist")
_MEANT = re.compile(r"\.? Maybe you meant:? \[?'?(.*?)'?(?:, '.*)?[]?]?\.?$")


def query_error(exc: EngineError, field: str, sql: str, tables: Callable[[], Sequence[Table]]) -> Invalid:
    """The error of a caller's query that the engine refused. `tables` are those that it may read."""
    message = str(exc)
    if exc.code in _UNKNOWN_COLUMN and (found := _COLUMN.match(message)):
        return _unknown_column(found[1], message, field, sql, tables())
    if exc.code == _UNKNOWN_FUNCTION and (found := _FUNCTION.match(message)):
        return _unknown("unknown_function", f"There is no function {shorten(found[1])!r}.", _meant(message), field)
    if exc.code == _UNKNOWN_TABLE:
        return Invalid(f"{field}: {message}", code="unknown_table", field=field)
    if exc.code in _TYPE_MISMATCH:
        return Invalid(f"{field}: {message} {_conversion(message)}", code="type_mismatch", field=field)
    return Invalid(f"{field}: {message}", field=field)


def _unknown(code: str, message: str, nearest: str | None, field: str) -> Invalid:
    if nearest is None:
        return Invalid(f"{field}: {message}", code=code, field=field)
    return Invalid(f"{field}: {message} Did you mean {nearest}?", code=code, field=field, nearest=[nearest])


def _unknown_column(name: str, message: str, field: str, sql: str, tables: Sequence[Table]) -> Invalid:
    named = [table for table in tables if re.search(rf"\b{re.escape(table.name)}\b", sql)]
    columns = list(dict.fromkeys(column.name for table in named for column in table.columns))
    text = f"There is no column {shorten(name)!r}."
    if f'"{name}"' in sql:
        text += f" A text stands in single quotes: '{shorten(name)}'."
    nearest = _meant(message) or nearest_one(name.rpartition(".")[2], columns)
    if nearest is None and columns:
        more = ", …" if len(columns) > MAX_NAMES_SHOWN else ""
        text += f" The columns are: {', '.join(map(shorten, columns[:MAX_NAMES_SHOWN]))}{more}."
    return _unknown("unknown_column", text, nearest, field)


def _meant(message: str) -> str | None:
    """The name that the engine suggests, unless it is that of a hidden column."""
    found = _MEANT.search(message)
    return found[1] if found and found[1].rpartition(".")[2].strip("`") != MARK_COLUMN else None


def _conversion(message: str) -> str:
    """A suggestion for types that do not fit."""
    has_text, has_date = re.search(r"String|[Tt]ext", message), re.search(r"\bDate|\bdate|\btime", message)
    if has_text and has_date:
        return "Convert the text: toDate(x), or parseDateTimeBestEffort(x)."
    if has_date:
        return "Compare a date with a date: toDate('2026-01-31')."
    if has_text:
        return "Convert one of them: toFloat64(x), toInt64(x) or toString(x)."
    return "Convert one of them: toString(x), toInt64(x) or toDate(x)."
