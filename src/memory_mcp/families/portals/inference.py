"""The type of a new column, from its values. The rule is in docs/portals.md."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.clock import instant
from memory_mcp.engines.chdb.parameters import MAX_EXACT_INTEGER, fits, would_round
from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.portals.address import column_name
from memory_mcp.families.portals.model import NewColumn, Record, Table

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_DATE = "2149-06-06"  # of the type Date, which begins in 1970
MOMENT_TYPE = "DateTime64(3, 'UTC')"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?")
_KINDS = {bool: "bool", int: "whole", float: "number", str: "text", list: "list", dict: "object"}
_TAKEN: dict[str, tuple[type, ...]] = {
    **{"Array": (list,), "JSON": (dict,), "Bool": (bool,), "Int": (int, str), "UInt": (int, str)},
    **{"Float": (int, float, str), "String": (str,), "UUID": (str,), "Date": (str,)},
}
KEY = "id"  # the column a table is sorted by, if there is one

# The table of the specification; further fields of records become columns.
WELL_KNOWN = {
    "messages": (
        NewColumn("id", "UUID", "generateUUIDv4()"),
        NewColumn("timestamp", "DateTime64(3, 'UTC')", "now64(3)"),
        NewColumn("role", "String"),
        NewColumn("content", "String"),
        NewColumn("tool_calls", "Array(String)"),
    )
}


def column_names(records: Sequence[Record], known: Table | None) -> dict[str, str]:
    """The fields of records that go to a column of another name, with that name. Raises Invalid if two go to one."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {column.name for column in known.columns} if known else set()
    targets = {name: name if name in columns else column_name(name) for name in names}
    if len(set(targets.values())) < len(targets):
        taken: dict[str, str] = {}
        for name, target in targets.items():
            if (other := taken.setdefault(target, name)) != name:
                raise Invalid(
                    f"data: {shorten(other)!r} and {shorten(name)!r} would both be the column {shorten(target)!r}. "
                    "Rename one of them.",
                    field="data",
                )
    return {name: target for name, target in targets.items() if name != target}


def wanted_columns(records: Sequence[Record], table: str, known: Table | None) -> list[NewColumn]:
    """The columns that records need beyond those of a table, which may be missing itself."""
    wanted = [] if known else list(WELL_KNOWN.get(table, ()))
    there = (column.name for column in (*(known.columns if known else ()), *wanted))
    return wanted + new_columns(records, there)


def new_columns(records: Sequence[Record], known: Iterable[str]) -> list[NewColumn]:
    """The columns that records need beyond the known ones, in the order they appear."""
    known = set(known)
    names = dict.fromkeys(name for record in records for name in record if name not in known)
    return [_column(name, [record.get(name) for record in records]) for name in names]


def _column(name: str, values: Sequence[Any]) -> NewColumn:
    seen = ColumnValues()
    seen.add(values)
    return seen.column(name, "data")


class ColumnValues:
    """The values of a column that have been read so far."""

    def __init__(self) -> None:
        self.count = 0
        self.has_null = False
        self._kinds: set[str] = set()
        self._text_kinds: set[str] = set()
        self._first_date = self._last_date = ""
        self._least = 0
        self._greatest = 0
        self._would_round = False
        self._inside: ColumnValues | None = None  # of lists

    def add(self, values: Sequence[Any]) -> None:
        there = [value for value in values if value is not None]
        self.count += len(values)
        self.has_null |= len(there) < len(values)
        kinds = {_KINDS[kind] for kind in set(map(type, there))}
        self._kinds |= kinds
        if "text" in kinds:
            self._add_texts(value for value in there if type(value) is str)
        if "whole" in kinds:
            self._add_whole([value for value in there if type(value) is int])
        if "list" in kinds:
            self._inside = self._inside or ColumnValues()
            self._inside.add([one for value in there if type(value) is list for one in value])

    def _add_texts(self, texts: Iterable[str]) -> None:
        for text in texts:
            if "text" in self._text_kinds:  # which decides the type
                return
            kind = _text_kind(text)
            self._text_kinds.add(kind)
            if kind == "date":
                self._first_date = min(self._first_date or text, text)
                self._last_date = max(self._last_date, text)

    def _add_whole(self, values: Sequence[int]) -> None:
        least, greatest = min(values), max(values)
        self._least, self._greatest = min(self._least, least), max(self._greatest, greatest)
        if least < -MAX_EXACT_INTEGER or greatest > MAX_EXACT_INTEGER:
            self._would_round = self._would_round or any(map(would_round, values))

    def column(self, name: str, field: str) -> NewColumn:
        """A new one for these values. Raises Invalid, naming `field`, if none fits them all."""
        kind = self._type(name, field)
        may_be_missing = not kind.startswith(("Array", "JSON")) and (name != KEY or self.has_null)
        return NewColumn(name, f"Nullable({kind})" if may_be_missing else kind)

    def _type(self, name: str, field: str) -> str:
        if self._kinds <= {"text"}:
            return self._text_type()
        if self._kinds == {"list"} and self._inside is not None:
            return self._inside._in_list(name, field)
        if self._kinds == {"whole"}:
            return self._whole_type(name, field)
        if self._kinds == {"whole", "number"} and self._would_round:
            raise Invalid(
                f"{field}: {name!r} holds fractions and a whole number beyond 2^53, which would be rounded. Write "
                "them as texts.",
                field=field,
            )
        for allowed, kind in (({"bool"}, "Bool"), ({"whole", "number"}, "Float64"), ({"object"}, "JSON")):
            if self._kinds <= allowed:
                return kind
        kinds = ", ".join(sorted(self._kinds))
        raise Invalid(f"{field}: {name!r} holds values of different types ({kinds}). Give it one.", field=field)

    def _text_type(self) -> str:
        if self._text_kinds == {"uuid"}:
            return "UUID"
        if self._text_kinds == {"date"}:
            return date_type(self._first_date, self._last_date)
        return MOMENT_TYPE if self._text_kinds and self._text_kinds <= {"date", "moment"} else "String"

    def _in_list(self, name: str, field: str) -> str:
        if self._kinds & {"list", "object"}:
            return "Array(JSON)" if self._kinds == {"object"} and not self.has_null else "Array(Dynamic)"
        if not (self._kinds <= {"text"} or len(self._kinds) == 1 or self._is_of_numbers()):
            return "Array(Dynamic)"
        inner = "String" if self._kinds <= {"text"} else self._type(name, field)
        return f"Array(Nullable({inner}))" if self.has_null else f"Array({inner})"

    def _is_of_numbers(self) -> bool:
        """Whether one type has them all unchanged."""
        return self._kinds == {"whole", "number"} and not self._would_round

    def _whole_type(self, name: str, field: str) -> str:
        if self._least >= -(2**63) and self._greatest < 2**63:
            return "Int64"
        if self._least >= 0 and self._greatest < 2**64:
            return "UInt64"
        if fits(self._least, "Int128") and fits(self._greatest, "Int128"):
            return "Int128"
        raise Invalid(f"{field}: {name!r} holds a number wider than 128 bits. Write it as a text.", field=field)


def first_unfit(values: Sequence[Any], kind: str) -> int | None:
    """The index of the first value that the engine would change to fit a column; null never is."""
    if not re.search(r"Int|Date|Float|Array\(", kind):
        return None  # nothing else is changed
    there = [value for value in values if value is not None]
    if all(fits(value, kind) for value in _deciding_values(there, kind)):
        return None
    return next(number for number, value in enumerate(values) if value is not None and not fits(value, kind))


def plain_type(kind: str) -> str:
    """A type for people: whether values may be missing does not matter."""
    return kind[9:-1] if kind.startswith("Nullable(") else kind


def describe_misfit(name: str, number: int, value: Any, kind: str) -> str:
    """Which value of which record does not fit which type."""
    shown = shorten(json.dumps(value, ensure_ascii=False))
    return f"{shorten(name)!r} of record {number} is {shown}, which does not fit {plain_type(kind)}."


def is_of(value: Any, kind: str) -> bool:
    """Whether a value is of a kind that a column may take."""
    if kind.startswith("Array(") and type(value) is list:
        return all(one is None or is_of(one, kind[6:-1]) for one in value)
    kind = plain_type(kind)
    if type(value) is str and kind.startswith(("Float", "UUID")):
        return _is_number(value) if kind.startswith("Float") else UUID.fullmatch(value) is not None
    allowed = next((kinds for word, kinds in _TAKEN.items() if kind.startswith(word)), None)
    return allowed is None or type(value) in allowed


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _deciding_values(values: Sequence[Any], kind: str) -> Sequence[Any]:
    """The values that decide whether all fit: of whole numbers the least and the greatest."""
    if values and set(map(type, values)) == {int}:
        ends = min(values), max(values)
        if "Float" not in kind or max(map(abs, ends)) <= MAX_EXACT_INTEGER:
            return ends
    return values


def column_type(seen: str, name: str, *, of_texts: bool, has_null: bool = False) -> str:
    """The type of a column of which the engine has seen a file. `has_null` is what is known of the key, and of lists.
    In a file `of_texts`, lists of dates are lists of texts."""
    kind = seen[9:-1] if seen.startswith("Nullable(") else seen
    if "Nothing" in kind or (of_texts and re.match(r"Array\((Nullable\()?Date", kind)):
        kind = "Array(String)" if kind.startswith("Array(") else "String"
    elif kind.startswith("DateTime"):
        kind = MOMENT_TYPE
    elif kind.startswith(("Map(", "Tuple(", "Object(")):
        kind = "JSON"
    elif kind.startswith("Array(Array("):
        kind = "Array(Dynamic)"
    elif kind.startswith("Array("):
        kind = f"Array({column_type(kind[6:-1], KEY, of_texts=of_texts, has_null=has_null)})"
    is_plain = not kind.startswith(("Array", "JSON"))
    return f"Nullable({kind})" if is_plain and (name != KEY or has_null) else kind


def chosen_type(kind: str, name: str) -> str:
    """The engine's type for one that a caller chose for the column `name`."""
    chosen = {"Date": "Date32", "DateTime": MOMENT_TYPE}.get(kind, kind)
    return chosen if name == KEY else f"Nullable({chosen})"


def date_type(first: str, last: str) -> str:
    """The type for dates from the first to the last."""
    return "Date" if first >= "1970" and last <= _MAX_DATE else "Date32"


def _text_kind(text: str) -> str:
    if UUID.fullmatch(text):
        return "uuid"
    if not (is_date := bool(_DATE.fullmatch(text))) and not MOMENT.fullmatch(text):
        return "text"
    try:
        instant(text)
    except ValueError:
        return "text"
    return "date" if is_date else "moment"
