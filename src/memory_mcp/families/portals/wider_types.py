"""The wider type of an existing column, for values that its type lacks. No value of it changes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from memory_mcp.engines.chdb.parameters import DATE_CHARS, fits, would_round
from memory_mcp.families.portals.inference import MOMENT_TYPE, plain_type

_WHOLE = re.compile(r"(U?)Int(\d+)")
_WIDER_WHOLE_BITS = (64, 128)


@dataclass(frozen=True)
class Widened:
    """A column that gets another type."""

    name: str
    former: str
    type: str

    @property
    def is_of_fractions(self) -> bool:
        """Whether it must be checked that no stored number would be rounded."""
        return "Float64" in self.type

    def __str__(self) -> str:
        return f"The column {self.name!r} is now {plain_type(self.type)}; it was {plain_type(self.former)}."


def wider_type(kind: str, values: Sequence[Any]) -> str | None:
    """The type in which a column of this type can hold these values, too; None if there is none."""
    if kind.startswith("Nullable("):
        inner = wider_type(kind[9:-1], values)
        return f"Nullable({inner})" if inner else None
    there = [value for value in values if value is not None]
    if kind.startswith("Array("):
        if not all(type(value) is list for value in there):
            return None
        inner = wider_type(kind[6:-1], list(chain.from_iterable(there))) if None not in chain(*there) else None
        return f"Array({inner})" if inner and not kind.startswith("Array(Date") else None
    if whole := _WHOLE.fullmatch(kind):
        return _wider_whole(there, int(whole[2]) + len(whole[1]))
    if kind in ("Date", "Date32"):
        return _wider_date(there)
    return None


def wider_type_for_file(kind: str, seen: str) -> str | None:
    """The type in which a column of this type can hold values of a CSV or Parquet file's column, too, by the type that
    the engine sees in the file; None if it can already, or if there is none."""
    if kind.startswith("Nullable("):
        inner = wider_type_for_file(kind[9:-1], seen)
        return f"Nullable({inner})" if inner else None
    seen = plain_type(seen)
    if (whole := _WHOLE.fullmatch(kind)) and seen.startswith("Float"):
        return "Float64"
    if whole and (wider := _WHOLE.fullmatch(seen)):
        min_bits = max(int(one[2]) + len(one[1]) for one in (whole, wider))
        return next((f"Int{bits}" for bits in _WIDER_WHOLE_BITS if min_bits <= bits), None)
    if kind in ("Date", "Date32") and seen.startswith("DateTime"):
        return MOMENT_TYPE
    return "Date32" if (kind, seen) == ("Date", "Date32") else None


def _wider_whole(values: Sequence[Any], min_bits: int) -> str | None:
    """`min_bits` is what the stored numbers need, with their sign."""
    kinds = set(map(type, values))
    if kinds <= {int}:
        wider = (f"Int{bits}" for bits in _WIDER_WHOLE_BITS if bits >= min_bits)
        return next((kind for kind in wider if all(fits(value, kind) for value in values)), None)
    if kinds <= {int, float} and not any(would_round(value) for value in values if type(value) is int):
        return "Float64"
    return None


def _wider_date(values: Sequence[Any]) -> str | None:
    if not all(fits(value, MOMENT_TYPE) for value in values):
        return None
    return "Date32" if all(len(value) == DATE_CHARS for value in values) else MOMENT_TYPE
