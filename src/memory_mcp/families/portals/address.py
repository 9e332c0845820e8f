"""mem://namespace/portal[/table][?since=&until=&limit=&offset=&order=]"""

import re
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import parse_qsl, unquote, urlsplit

from memory_mcp.clock import instant
from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.errors import Invalid, shorten

SCHEME = "mem://"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
MAX_COLUMN_CHARS = 128
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f.\\]")  # in the name of a column; the engine takes a dot for a nested list
_STATE = re.compile("(aggregate)(function)", re.IGNORECASE)  # which no query may name
_RESERVED = {"_row_exists", "_block_number", "_block_offset", MARK_COLUMN}  # by the engine, and by this server
MAX_ROWS = 1000


@dataclass(frozen=True)
class Address:
    namespace: str
    portal: str
    table: str | None = None

    @property
    def portal_uri(self) -> str:
        return f"{SCHEME}{self.namespace}/{self.portal}"


@dataclass(frozen=True)
class RowRange:
    """Which rows of a table are wanted."""

    since: str | None = None
    until: str | None = None
    limit: int = 100
    offset: int = 0
    order: str | None = None  # a column, with a minus for the last first


def parse(uri: str, field: str = "portalUri") -> Address:
    """Raises Invalid with the form of an address."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # half a bracket
        parts = urlsplit("")
    ways = [unquote(part) for part in (parts.netloc, *parts.path.strip("/").split("/")) if part]
    if parts.scheme != "mem" or len(ways) not in (2, 3) or not all(map(NAME.fullmatch, ways[:2])):
        raise Invalid(
            f"{field}: give mem://namespace/portal; both names have 1 to 64 of a-z, 0-9, '.', '_' and '-', and start "
            "with a letter or a digit.",
            field=field,
        )
    return Address(ways[0], ways[1], check_table(ways[2], field) if len(ways) == 3 else None)


def portal(uri: str, field: str = "portalUri") -> Address:
    """The address of a portal alone. Raises Invalid for one with a table or filters, which would mean nothing."""
    address = view(uri, field)
    if address.table is not None:
        raise _too_much(address, field)
    return address


def view(uri: str, field: str = "portalUri") -> Address:
    """The address of a portal or a table, without filters."""
    address = parse(uri, field)
    if "?" in uri or "#" in uri:
        raise _too_much(address, field)
    return address


def _too_much(address: Address, field: str) -> Invalid:
    return Invalid(
        f"{field}: give {address.portal_uri} alone.",
        hint="Name a table in `table` and filter with portal_query; an address with more than that is for "
        "resources/read.",
        field=field,
    )


def check_table(name: str, field: str = "table") -> str:
    if not TABLE.fullmatch(name):
        raise Invalid(
            f"{field}: a table's name has 1 to 64 letters, digits and '_', and starts with no digit.", field=field
        )
    return name


def column_name(key: str) -> str:
    """The column that the values of a JSON key go to: the key itself, unless no column can have that name."""
    name = _STATE.sub(r"\1_\2", _UNUSABLE.sub("_", key))
    if not name.strip():
        return "unnamed"
    if name in _RESERVED:
        return name.removeprefix("_")
    if len(name) > MAX_COLUMN_CHARS:
        digest = sha256(key.encode()).hexdigest()[:8]
        return f"{name[: MAX_COLUMN_CHARS - len(digest) - 1]}_{digest}"
    return name


def check_column(name: str, field: str = "mapping") -> str:
    if (possible := column_name(name)) != name:
        raise Invalid(
            f"{field}: {shorten(name)!r} cannot be the name of a column. Use {shorten(possible)!r}.", field=field
        )
    return name


def page(uri: str) -> RowRange:
    """The filters of an address. Raises Invalid for one that does not make sense."""
    given = dict(parse_qsl(urlsplit(uri).query, keep_blank_values=True))
    if unknown := set(given) - {"since", "until", "limit", "offset", "order"}:
        raise Invalid(f"{min(unknown)!r} is not a filter. Use since, until, limit, offset and order.", field="uri")
    order = given.get("order")
    return RowRange(
        since=_moment(given, "since"),
        until=_moment(given, "until"),
        limit=_number(given, "limit", 100, 1, MAX_ROWS),
        offset=_number(given, "offset", 0, 0, 2**53),
        order=order or None,
    )


def _moment(given: dict[str, str], name: str) -> str | None:
    if name not in given:
        return None
    try:
        return instant(given[name]).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    except ValueError:
        raise Invalid(f"{name}: give a date or time as ISO 8601, like 2026-01-31.", field="uri") from None


def _number(given: dict[str, str], name: str, default: int, minimum: int, maximum: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 17 and minimum <= int(text) <= maximum):
        raise Invalid(f"{name}: give a number from {minimum} to {maximum}.", field="uri")
    return int(text)
