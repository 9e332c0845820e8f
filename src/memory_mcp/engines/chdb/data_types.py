"""Which data types a query may name and a portal file's table may have: those that hold values.

States of aggregate functions are not among them. The engine does not check the contents of such a state, so a
forged one can keep it busy for ever, or worse.
"""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

_ALLOWED = {
    *("Int8", "Int16", "Int32", "Int64", "Int128", "Int256", "UInt8", "UInt16", "UInt32", "UInt64", "UInt128"),
    *("UInt256", "Float32", "Float64", "BFloat16", "Decimal", "Decimal32", "Decimal64", "Decimal128", "Decimal256"),
    *("Bool", "String", "FixedString", "UUID", "IPv4", "IPv6", "Enum", "Enum8", "Enum16"),
    *("Date", "Date32", "DateTime", "DateTime32", "DateTime64", "Time", "Time64"),
    *("IntervalNanosecond", "IntervalMicrosecond", "IntervalMillisecond", "IntervalSecond", "IntervalMinute"),
    *("IntervalHour", "IntervalDay", "IntervalWeek", "IntervalMonth", "IntervalQuarter", "IntervalYear"),
    *("Array", "Tuple", "Map", "Nested", "Nullable", "LowCardinality", "Variant", "Dynamic", "JSON", "Nothing"),
    *("Point", "Ring", "LineString", "MultiLineString", "MultiPoint", "Polygon", "MultiPolygon", "Geometry", "QBit"),
}
_STATES = ("aggregatefunction", "simpleaggregatefunction")
# The tokens of a type's text. No escapes outside of texts: `Aggregate\x46unction` is a name to the engine, too.
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>[A-Za-z_][A-Za-z0-9_]*)
        | (?P<quoted>`[^`\\]*` | "[^"\\]*")
        | '(?:[^'\\]|\\.)*'
        | -?\d+(?:\.\d+)?
        | [(),=.:^@\[\]]
    )""",
    re.VERBOSE,
)
_OPENING = re.compile(r"\s*\(")


@dataclass(frozen=True)
class DataTypes:
    """The types an engine has, and which of them are allowed."""

    exact: Set[str]
    in_any_case: Set[str]  # lower case

    @classmethod
    def listed(cls, rows: Iterable[dict[str, Any]]) -> "DataTypes":
        """From the rows of system.data_type_families."""
        allowed = [row for row in rows if (row["alias_to"] or row["name"]) in _ALLOWED]
        return cls(
            exact={row["name"] for row in allowed},
            in_any_case={row["name"].lower() for row in allowed if row["case_insensitive"]},
        )

    def allow(self, name: str) -> bool:
        """Whether a type, by its name alone, may be used."""
        return name in self.exact or name.lower() in self.in_any_case

    def allow_text(self, text: str) -> bool:
        """Whether all types in a text may be used: of one type, of columns with their types, or of a subcolumn."""
        position = 0
        while position < len(text.rstrip()):
            token = _TOKEN.match(text, position)
            if token is None:
                return False
            position = token.end()
            if _OPENING.match(text, position) and not self._may_open(token):
                return False
            if (token["word"] or "").lower() in _STATES:
                return False
        return True

    def _may_open(self, token: re.Match[str]) -> bool:
        """Whether a parenthesis may come after this: arguments follow a type's name, the last word of it at least."""
        if token["quoted"]:
            return False
        word = token["word"]
        return word is None or self.allow(word) or any(name.endswith(f" {word.lower()}") for name in self.in_any_case)
