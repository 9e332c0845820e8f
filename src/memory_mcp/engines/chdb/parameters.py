"""Values for the query parameters of chDB, `{name:Type}`, which it parses as escaped TSV."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from memory_mcp.clock import instant

_WHOLE = re.compile(r"(U?)Int(\d+)")
_MOMENT = re.compile(r"DateTime(?:64\((\d)[^)]*\)|\([^)]*\)|)")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?")
DATE_CHARS = 10  # of a date without a time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_EXACT_INTEGER = 2**53  # up to here, a fraction of 64 bits holds every whole number
_MAX_FRACTION_BITS = 1000
_DIGITS = re.compile(r"[+-]?\d+")


class Unfit(ValueError):
    """The value does not fit its type, and the engine would silently change it. The message names it."""


_ESCAPED = {
    ord("\\"): "\\\\",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\0"): "\\0",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
}


def encoded(value: Any) -> str:
    """A value on its own."""
    match value:
        case None:
            return "\\N"
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case list() | dict():
            return _literal(value)
    return str(value).translate(_ESCAPED)


def prepared(name: str, value: Any, kind: str) -> Any:
    """A value for a parameter of a type, times as the engine reads them. Raises Unfit for one that would change."""
    if not fits(value, kind):
        raise Unfit(f"The value of {name!r} does not fit {kind}.")
    return _with_moments(value, kind)


def fits(value: Any, kind: str) -> bool:
    """Whether the engine stores a value unchanged. It silently wraps whole numbers that are too wide and rounds them in
    fractions, reads null in a list and an empty text as zero, accepts nan as a number, parses almost anything as a time
    and moves it to the nearest one that the type has."""
    if kind.startswith("Nullable("):
        return value is None or fits(value, kind[9:-1])
    if kind.startswith("Array(") and isinstance(value, list):
        inner = kind[6:-1]
        takes_null = inner.startswith(("Nullable(", "Dynamic", "JSON"))
        return all((takes_null if one is None else fits(one, inner)) for one in value)
    if kind.startswith("Map(") and isinstance(value, dict):
        return all(fits(one, "String") for one in value.values())
    if kind == "String":
        return value is not None and not isinstance(value, list | dict)
    if kind.startswith("Date"):
        return isinstance(value, str) and _is_moment_of(value, kind)
    if kind.startswith("Float"):
        return _is_fraction(value)
    if not (whole := _WHOLE.fullmatch(kind)):
        return True
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value) or len(value) >= 100:
            return False
        value = int(value)
    bits = int(whole[2])
    low, high = (0, 2**bits) if whole[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return type(value) is int and low <= value < high


def would_round(value: int) -> bool:
    """Whether a fraction of 64 bits cannot represent this whole number exactly."""
    return abs(value) > MAX_EXACT_INTEGER and (value.bit_length() > _MAX_FRACTION_BITS or int(float(value)) != value)


def _is_fraction(value: Any) -> bool:
    if isinstance(value, str):
        if _DIGITS.fullmatch(value):
            return len(value) < 100 and not would_round(int(value))
        try:
            return math.isfinite(float(value))
        except ValueError:
            return True  # the engine says that it is not a number
    if isinstance(value, int):
        return not would_round(value)
    return not isinstance(value, float) or math.isfinite(value)


def _is_moment_of(text: str, kind: str) -> bool:
    """Whether a text is a valid date or time within the range of a type."""
    if not _ISO.fullmatch(text) or (kind in ("Date", "Date32") and len(text) > DATE_CHARS):
        return False
    try:
        seconds = (instant(text) - _EPOCH).total_seconds()
    except ValueError:
        return False
    if kind == "Date":
        return 0 <= seconds < 2**16 * 86400
    if digits := re.match(r"DateTime64\((\d)", kind):
        ticks: int = 10 ** int(digits[1])
        return abs(seconds) * ticks < 2**63
    return kind == "Date32" or 0 <= seconds < 2**32


def ticks(text: str, kind: str) -> int | None:
    """A time that fits DateTime64, counted as the type does; None for types with other than milli- or microseconds."""
    found = re.match(r"DateTime64\(([36])(?:, ?'([^']*)')?\)", kind)
    if found is None:
        return None
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(found[2]) if found[2] else UTC)
    return (moment - _EPOCH) // timedelta(microseconds=10 ** (6 - int(found[1])))


def _with_moments(value: Any, kind: str) -> Any:
    if "DateTime" not in kind:
        return value
    if isinstance(value, list):
        return [_with_moments(one, kind.removeprefix("Array(").removesuffix(")")) for one in value]
    return _moment(value, kind.removeprefix("Nullable(")) if isinstance(value, str) else value


def _moment(text: str, kind: str) -> str:
    """A time that names its zone, in the zone and to the digit that a type has. Others are returned unchanged."""
    type_ = _MOMENT.match(kind)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if not type_ or found.tzinfo is None:
        return text
    zone = kind.partition("'")[2].partition("'")[0]
    found = found.astimezone(ZoneInfo(zone) if zone else UTC).replace(tzinfo=None)
    digits = min(int(type_[1] or 0), 6)
    whole = found.isoformat(sep=" ", timespec="seconds")
    return f"{whole}.{found.microsecond:06d}"[: len(whole) + 1 + digits] if digits else whole


def literal(text: str) -> str:
    """A text as an SQL literal."""
    return _literal(text)


def _literal(value: Any) -> str:
    """A value inside of an array or a map."""
    match value:
        case None:
            return "NULL"
        case list():
            return "[" + ",".join(map(_literal, value)) + "]"
        case dict():
            return "{" + ",".join(f"{_literal(str(key))}:{_literal(one)}" for key, one in value.items()) + "}"
        case str():
            return "'" + value.translate(_ESCAPED).replace("'", "\\'") + "'"
    return encoded(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else "inf" if value > 0 else "-inf"
