"""Which type a new column gets, from the values it is to hold. The rule is in docs/portals.md."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.clock import instant
from memory_mcp.errors import Invalid
from memory_mcp.portals.address import check_column
from memory_mcp.portals.model import NewColumn, Record, Table

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?")
KEY = "id"  # the column a table is sorted by, if there is one

# The table the specification describes; what else records hold is added to it.
WELL_KNOWN = {
    "messages": (
        NewColumn("id", "UUID", "generateUUIDv4()"),
        NewColumn("timestamp", "DateTime64(3, 'UTC')", "now64(3)"),
        NewColumn("role", "String"),
        NewColumn("content", "String"),
        NewColumn("tool_calls", "Array(String)"),
    )
}


def wanted_columns(records: Sequence[Record], table: str, known: Table | None) -> list[NewColumn]:
    """The columns that records need beyond those of a table, which may be missing itself."""
    wanted = [] if known else list(WELL_KNOWN.get(table, ()))
    there = (column.name for column in (*(known.columns if known else ()), *wanted))
    return wanted + new_columns(records, there)


def new_columns(records: Sequence[Record], known: Iterable[str]) -> list[NewColumn]:
    """The columns that records need beyond the known ones, in the order they appear."""
    known = set(known)
    names = dict.fromkeys(name for record in records for name in record if name not in known)
    return [_column(check_column(name), [record.get(name) for record in records]) for name in names]


def _column(name: str, values: Sequence[Any]) -> NewColumn:
    kind = _type(name, [value for value in values if value is not None])
    may_be_missing = not kind.startswith(("Array", "JSON")) and not (name == KEY and None not in values)
    return NewColumn(name, f"Nullable({kind})" if may_be_missing else kind)


def column_type(seen: str, name: str, *, of_texts: bool) -> str:
    """The type of a column of which the engine has seen a file. In one `of_texts`, dates and times are what it has made
    of texts: they are read as those of records are."""
    kind = seen[9:-1] if seen.startswith("Nullable(") else seen
    if "Nothing" in kind or (of_texts and (kind in ("Date", "Date32") or re.match(r"Array\((Nullable\()?Date", kind))):
        kind = "Array(String)" if kind.startswith("Array(") else "String"
    elif kind.startswith(("DateTime", "Date")):
        kind = "DateTime64(3, 'UTC')"
    elif kind.startswith(("Map(", "Tuple(", "Object(")):
        kind = "JSON"
    elif kind.startswith("Array(Array("):
        kind = "Array(Dynamic)"
    elif kind.startswith("Array("):
        kind = f"Array({column_type(kind[6:-1], KEY, of_texts=of_texts)})"
    is_plain = not kind.startswith(("Array", "JSON"))
    return f"Nullable({kind})" if is_plain and name != KEY else kind


def _type(name: str, values: Sequence[Any]) -> str:
    kinds = {_kind(value) for value in values}
    if kinds <= {"text"}:
        return _text_type(values)
    if kinds == {"list"}:
        return _list_type(name, [one for value in values for one in value])
    for allowed, kind in (
        ({"bool"}, "Bool"),
        ({"whole"}, "Int64"),
        ({"whole", "number"}, "Float64"),
        ({"object"}, "JSON"),
    ):
        if kinds <= allowed:
            return _checked_whole(name, values) if kind == "Int64" else kind
    raise Invalid(
        f"data: {name!r} holds values of different types ({', '.join(sorted(kinds))}). Give it one.", field="data"
    )


def _text_type(values: Sequence[str]) -> str:
    if values and all(map(UUID.fullmatch, values)):
        return "UUID"
    if values and all(map(_is_moment, values)):
        return "DateTime64(3, 'UTC')"
    return "String"


def _list_type(name: str, values: Sequence[Any]) -> str:
    there = [value for value in values if value is not None]
    kinds = {_kind(value) for value in there}
    if kinds & {"list", "object"}:
        return "Array(JSON)" if kinds == {"object"} and there == values else "Array(Dynamic)"
    inner = "String" if kinds <= {"text"} else _type(name, there)
    return f"Array({inner})" if there == values else f"Array(Nullable({inner}))"


def _checked_whole(name: str, values: Sequence[int]) -> str:
    if all(-(2**63) <= value < 2**63 for value in values):
        return "Int64"
    if all(0 <= value < 2**64 for value in values):
        return "UInt64"
    raise Invalid(f"data: {name!r} holds a number wider than 64 bits. Write it as a text.", field="data")


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "whole"
        case float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    return "object"


def _is_moment(text: str) -> bool:
    if not MOMENT.fullmatch(text):
        return False
    try:
        instant(text)
    except ValueError:
        return False
    return True
