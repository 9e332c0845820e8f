"""The result of a query, for a model: limits, readable values, unique names."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from memory_mcp.errors import Invalid
from memory_mcp.families.family import TOKEN_BUDGET
from memory_mcp.families.portals.answers import Result, ResultColumn
from memory_mcp.text import tokens as token_counts

MAX_TYPE_LEVELS = 64  # of the type of a column
MAX_VALUE_LEVELS = 100  # of objects and lists in a value: JSON parsers refuse many more
MAX_COLUMNS = 1000
MAX_COLUMN_NAME_CHARS = 4000
MAX_SAFE_INTEGER = 2**53  # whole numbers that every JSON reader keeps

Meta = Sequence[Mapping[str, str]]
"""Name and type of each column, as the engine gives them."""
RowFormat = Literal["objects", "arrays"]
T = TypeVar("T")


def result(found: Mapping[str, Any], max_rows: int, max_tokens: int, row_format: RowFormat = "objects") -> Result:
    """The result of the engine, with as many rows as fit. Raises Invalid for columns or values that JSON readers
    refuse."""
    meta, data = found["meta"], found["data"]
    columns_tokens = _check_columns(meta)
    columns = [ResultColumn(name, one["type"]) for name, one in zip(_unique(meta), meta, strict=True)]
    names = [column.name for column in columns]
    rows: Iterable[Any] = (
        [readable(value, column.type, "sql") for column, value in zip(columns, row, strict=True)]
        for row in data[:max_rows]
    )
    if row_format == "objects":
        rows = (dict(zip(names, row, strict=True)) for row in rows)
    shown = rows_within(rows, max_tokens, columns_tokens)
    is_truncated = found["isCut"] or len(shown) < len(data)
    elapsed_ms = round(found["elapsedSeconds"] * 1000, 3)
    notice = _rest(len(shown)) if is_truncated else None
    return Result(columns, shown, len(shown), is_truncated, elapsed_ms, notice)


def _rest(shown: int) -> str:
    """How to get what was left out."""
    if not shown:
        return (
            "There is more: the first row alone is too long for an answer. Name fewer columns, or take parts of long "
            "texts: substring(text, 1, 1000). portal_export writes whole rows to a file."
        )
    return (
        f"There is more: these are the first {shown} rows. Aggregate (count, avg, GROUP BY), name fewer columns, go on "
        f"with ORDER BY … LIMIT … OFFSET {shown}, or write all rows to a file with portal_export."
    )


def _check_columns(meta: Meta) -> int:
    """How many tokens the names and types of the columns take up."""
    if len(meta) > MAX_COLUMNS:
        raise _too_large(f"the result has {len(meta)} columns. Ask for at most {MAX_COLUMNS} at a time.")
    tokens = count_tokens(meta)
    if any(len(one["name"]) > MAX_COLUMN_NAME_CHARS for one in meta) or tokens > TOKEN_BUDGET:
        raise _too_large(
            f"the names of the result's columns are too long; one has at most {MAX_COLUMN_NAME_CHARS} characters. Give "
            "short ones: SELECT … AS name."
        )
    if any(one["type"].count("(") > MAX_TYPE_LEVELS for one in meta):
        raise _too_large(
            f"a column of the result is nested more than {MAX_TYPE_LEVELS} levels deep. Use toString on it."
        )
    return tokens


def _too_large(message: str) -> Invalid:
    return Invalid(f"sql: {message}", code="too_large", field="sql")


def rows_within(rows: Iterable[T], max_tokens: int, used_tokens: int = 0) -> list[T]:
    """As many rows as fit an answer of which some tokens are used already. The first row may be longer than
    `max_tokens`, up to TOKEN_BUDGET; if it is longer still, there are none."""
    shown: list[T] = []
    for row in rows:
        used_tokens += count_tokens(row)
        if used_tokens > (max_tokens if shown else TOKEN_BUDGET):
            break
        shown.append(row)
    return shown


def count_tokens(shown: Any) -> int:
    """About as many as a model counts in a value's JSON."""
    return token_counts.estimate(json.dumps(shown, ensure_ascii=False))


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
