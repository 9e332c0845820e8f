"""The result of a query, for a model: limits, readable values, unique names."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.families.family import BYTES_PER_TOKEN, TOKEN_BUDGET, within_budget
from memory_mcp.families.portals.answers import Result, ResultColumn
from memory_mcp.families.portals.model import Record

MAX_TYPE_LEVELS = 64  # of the type of a column
MAX_VALUE_LEVELS = 100  # of objects and lists in a value: JSON parsers refuse many more
MAX_COLUMNS = 1000
MAX_COLUMN_NAME_CHARS = 4000
MAX_COLUMN_NAMES_BYTES = TOKEN_BUDGET * BYTES_PER_TOKEN  # of all of them, with their types
MAX_SAFE_INTEGER = 2**53  # whole numbers that every JSON reader keeps
TRUNCATED = "There is more. Ask for less at a time: LIMIT and OFFSET, WHERE, fewer columns, substring(text, 1, 1000)."

Meta = Sequence[Mapping[str, str]]
"""Name and type of each column, as the engine gives them."""


def result(found: Mapping[str, Any], max_rows: int) -> Result:
    """The result of the engine. Raises Invalid for columns or values that JSON readers refuse."""
    meta: Meta = found["meta"]
    _check_columns(meta)
    columns = [ResultColumn(name, one["type"]) for name, one in zip(_unique(meta), meta, strict=True)]
    rows = [
        {c.name: readable(value, c.type, "sql") for c, value in zip(columns, row, strict=True)} for row in found["data"]
    ]
    shown = fitting(rows[:max_rows])
    is_truncated = found["isCut"] or len(shown) < len(rows)
    elapsed_ms = round(found["elapsedSeconds"] * 1000, 3)
    return Result(columns, shown, len(shown), is_truncated, elapsed_ms, TRUNCATED if is_truncated else None)


def _check_columns(meta: Meta) -> None:
    if len(meta) > MAX_COLUMNS:
        raise _too_large(f"the result has {len(meta)} columns. Ask for at most {MAX_COLUMNS} at a time.")
    if any(len(one["name"]) > MAX_COLUMN_NAME_CHARS for one in meta) or _size(meta) > MAX_COLUMN_NAMES_BYTES:
        raise _too_large(
            f"the names of the result's columns are too long; one has at most {MAX_COLUMN_NAME_CHARS} characters. Give "
            "short ones: SELECT … AS name."
        )
    if any(one["type"].count("(") > MAX_TYPE_LEVELS for one in meta):
        raise _too_large(
            f"a column of the result is nested more than {MAX_TYPE_LEVELS} levels deep. Use toString on it."
        )


def _too_large(message: str) -> Invalid:
    return Invalid(f"sql: {message}", code="too_large", field="sql")


def fitting(rows: Sequence[Record]) -> list[Record]:
    """As many rows as fit the size limit for a model; none if the first alone is too long."""
    shown = within_budget(rows, _size)
    return shown if shown and _size(shown[0]) <= TOKEN_BUDGET * BYTES_PER_TOKEN else []


def _size(shown: Any) -> int:
    return len(json.dumps(shown, ensure_ascii=False).encode())


def readable(value: Any, kind: str, field: str, level: int = 0) -> Any:
    """Whole numbers that not every reader of JSON keeps become texts; the engine writes 1e18 as a whole number too.

    Raises Invalid, naming `field`, for a value that is nested too deep.
    """
    if level >= MAX_VALUE_LEVELS and isinstance(value, (list, dict)):
        raise nested_too_deep(field)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SAFE_INTEGER:
        return float(value) if "Float" in kind else str(value)
    if isinstance(value, list):
        return [readable(one, kind, field, level + 1) for one in value]
    if isinstance(value, dict):
        return {name: readable(one, kind, field, level + 1) for name, one in value.items()}
    return value


def nested_too_deep(field: str) -> Invalid:
    return Invalid(
        f"{field}: a value of the result is nested more than {MAX_VALUE_LEVELS} levels deep. Use toString or "
        "toJSONString on it.",
        code="too_large",
        field=field,
    )


def _unique(meta: Meta) -> list[str]:
    """Names of columns, no two the same."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}  # the last one given to a name
    names: list[str] = []
    for column in meta:
        name = column["name"]
        while name in taken:
            numbers[column["name"]] = numbers.get(column["name"], 1) + 1
            name = f"{column['name']}_{numbers[column['name']]}"
        taken.add(name)
        names.append(name)
    return names
