"""The records that nodes exchange, one for each note, and how two of them merge.

A record is state, not a change: merging is commutative, associative and idempotent. Records may be lost, arrive twice
or in any order; nodes that have seen the same records agree.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from memory_mcp.clock import instant, precise_stamp
from memory_mcp.errors import Invalid
from memory_mcp.services.sync.protocol import (
    MAX_RECORD_BYTES,
    MAX_RECORD_VALUES,
    MAX_STAMP_MS,
    is_namespace,
    printable,
)
from memory_mcp.text.json_counts import count_values
from memory_mcp.text.validation import sentence

STAMP = r"^[0-9]{15}:[0-9]{5}:[0-9a-z]{1,32}$"
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"  # fixed width: compared as text
ID = r"^[!-.0-~]{1,64}$"  # printable ASCII without a slash
NAMESPACE = "namespace"
DELETION = "dead"  # the field's name on the wire; in sealed records also a register: the proof of the deletion
OPEN = "open"  # a sealed namespace's name, which the hub needs
MAX_FIELD_NAME_CHARS = 80  # of a field's name in an error message
MAX_FIELDS = 10_000
MAX_NAME_CHARS = 4096
MAX_TEXT_CHARS = 1024 * 1024
MAX_TITLE_CHARS = 4096
MAX_FOLDER_CHARS = 512
MAX_TAG_CHARS = 128
MAX_DEPTH = 100  # of nested lists and objects: SQLite and Python stop at about 1,000
MIN_YEAR = 1000


def _check_moment(text: str) -> str:
    if precise_stamp(instant(text)) != text or int(text[:4]) < MIN_YEAR:
        raise ValueError("not a valid time")
    return text


def _check_stamp(stamp: str) -> str:
    if milliseconds(stamp) > MAX_STAMP_MS:
        raise ValueError("a time too far in the future")
    return stamp


def _check_name(name: str) -> str:
    if "\0" in name:
        raise ValueError("a field's name has no NUL")
    return name


Stamp = Annotated[str, Field(pattern=STAMP), AfterValidator(_check_stamp)]
Moment = Annotated[str, Field(pattern=MOMENT), AfterValidator(_check_moment)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(_check_name)]
Id = Annotated[str, Field(pattern=ID)]
Register = tuple[Stamp] | tuple[Stamp, JsonValue]
"""A field's last stamp and its value; without a value, the field was removed."""

V = TypeVar("V")


@dataclass(frozen=True)
class NoteRecord:
    """All that a node knows of one note. Missing fields are unknown."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    id: Id
    registers: Annotated[dict[Name, Register], Field(max_length=MAX_FIELDS)] = field(default_factory=dict)
    importance: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    last_referenced_at: Moment | None = None
    updated_at: Moment | None = None
    created: tuple[Moment, Annotated[str, Field(max_length=64)] | None] | None = None  # when, and by which client
    deleted: Annotated[Stamp | None, Field(alias=DELETION)] = None  # permanently

    @property
    def namespace(self) -> str | None:
        register = self.registers.get(NAMESPACE, ("",))
        value = register[1] if len(register) == 2 else None
        found = value.get(OPEN) if isinstance(value, dict) else value
        return found if isinstance(found, str) and is_namespace(found) else None

    @property
    def stamps(self) -> list[str]:
        return [register[0] for register in self.registers.values()] + ([self.deleted] if self.deleted else [])

    @property
    def location_only(self) -> "NoteRecord":
        """The part for nodes that do not sync its namespace: only that the note moved there or was deleted."""
        return NoteRecord(
            self.id,
            {name: value for name, value in self.registers.items() if name in (NAMESPACE, DELETION)},
            deleted=self.deleted,
        )

    def with_hub_values(self, hub: "NoteRecord") -> "NoteRecord":
        """The same record with the hub's values at equal stamps. Two copies of one node write such values, and the hub
        orders them in their sealed form."""
        decided = {
            name: register
            for name, register in hub.registers.items()
            if name in self.registers and self.registers[name][0] == register[0]
        }
        return replace(self, registers={**self.registers, **decided})


def merge(one: NoteRecord, other: NoteRecord) -> NoteRecord:
    """The merge of two records. A deletion always wins, and removes all other values."""
    deleted = _later(one.deleted, other.deleted)
    registers = _registers(one.registers, other.registers)
    if deleted:
        return NoteRecord(one.id, registers, deleted=deleted).location_only
    return NoteRecord(
        one.id,
        registers,
        importance=_later(one.importance, other.importance),
        last_referenced_at=_later(one.last_referenced_at, other.last_referenced_at),
        updated_at=_later(one.updated_at, other.updated_at),
        created=_earlier(one.created, other.created),
    )


def _registers(one: Mapping[str, Register], other: Mapping[str, Register]) -> dict[str, Register]:
    merged = dict(one)
    for name, register in other.items():
        merged[name] = max(merged[name], register, key=_order) if name in merged else register
    return merged


def _order(register: Register) -> tuple[str, str]:
    """The later stamp wins. Equal stamps with different values come from two copies of a node: any order that is the
    same on every node will do."""
    return register[0], json.dumps(register[1:], sort_keys=True)


def _later(one: V | None, other: V | None) -> V | None:
    return max((value for value in (one, other) if value is not None), default=None)  # type: ignore[type-var]


def _earlier(one: tuple[str, str | None] | None, other: tuple[str, str | None] | None) -> tuple[str, str | None] | None:
    return min((value for value in (one, other) if value), key=_birth, default=None)


def _birth(created: tuple[str, str | None]) -> tuple[str, bool, str]:
    when, client = created
    return when, client is not None, client or ""


def milliseconds(stamp: str) -> int:
    return int(stamp[:15])


def limit_times(record: NoteRecord, latest: str) -> NoteRecord:
    """Limit times from a clock that runs ahead: otherwise no later change would win."""
    return replace(
        record,
        last_referenced_at=record.last_referenced_at and min(record.last_referenced_at, latest),
        updated_at=record.updated_at and min(record.updated_at, latest),
    )


# As JSON


def as_json(record: NoteRecord) -> dict[str, Any]:
    """Without unknown fields."""
    values = {**vars(record), DELETION: record.deleted}
    return {name: values[name] for name in FIELDS if values[name] is not None}


FIELDS = ("id", "registers", "importance", "last_referenced_at", "updated_at", "created", DELETION)


def parse(data: object) -> NoteRecord:
    """A record from another node, sealed or not. Raises Invalid."""
    try:
        record = _adapter().validate_python(data)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except ValidationError as exc:
        first = exc.errors()[0]
        where = printable(".".join(str(part)[:MAX_FIELD_NAME_CHARS] for part in first["loc"]), 2 * MAX_FIELD_NAME_CHARS)
        raise Invalid(f"{where}: {sentence(first, is_secret=True)}.") from exc
    except (ValueError, RecursionError) as exc:
        raise Invalid("Only UTF-8 text and finite numbers are allowed.") from exc
    if len(text) > MAX_RECORD_BYTES:
        raise Invalid(f"It is over {MAX_RECORD_BYTES:,} bytes.")
    if count_values(text, MAX_RECORD_VALUES) > MAX_RECORD_VALUES:
        raise Invalid(f"It has over {MAX_RECORD_VALUES:,} values.")
    return record


def check_size(record: NoteRecord) -> None:
    """Raises Invalid if a merged record is too large: nodes would refuse it."""
    if len(record.registers) > MAX_FIELDS:
        raise Invalid(f"Merged with the stored record, it has over {MAX_FIELDS:,} fields.")
    text = json.dumps(as_json(record), ensure_ascii=False).encode()
    if len(text) > MAX_RECORD_BYTES:
        raise Invalid(f"Merged with the stored record, it is over {MAX_RECORD_BYTES:,} bytes.")
    if count_values(text, MAX_RECORD_VALUES) > MAX_RECORD_VALUES:
        raise Invalid(f"Merged with the stored record, it has over {MAX_RECORD_VALUES:,} values.")


def check_values(record: NoteRecord) -> None:
    """Check the values of all known fields. Not for sealed records. Raises Invalid."""
    for name, register in record.registers.items():
        value = register[1] if len(register) == 2 else None
        kind, _, key = name.partition("/")
        if not _fits(kind, key, value, is_removed=len(register) == 1):
            raise Invalid(f"{printable(name, MAX_FIELD_NAME_CHARS)}: not a valid value.")


def _fits(kind: str, key: str, value: Any, *, is_removed: bool) -> bool:
    match kind:
        case "content" | "folder" if not key:
            max_chars = MAX_TEXT_CHARS if kind == "content" else MAX_FOLDER_CHARS
            return isinstance(value, str) and len(value) <= max_chars
        case "namespace" if not key:
            return is_namespace(value)
        case "title" if not key:
            return value is None or (isinstance(value, str) and len(value) <= MAX_TITLE_CHARS)
        case "expires_at" if not key:
            return value is None or (isinstance(value, str) and _is_time(value))
        case "archived" if not key:
            return is_removed or isinstance(value, bool)
        case "tag":
            return is_removed or _is_tag(value)
        case "link" | "supersedes":
            return is_removed or (value == key and re.fullmatch(ID, key) is not None)
        case "wikilink":
            return is_removed or (isinstance(value, str) and re.fullmatch(ID, value) is not None)
        case _:
            return not _is_deeper(value, MAX_DEPTH)


def _is_tag(value: Any) -> bool:
    match value:
        case [str(name), "user" | "system"]:
            return 0 < len(name) <= MAX_TAG_CHARS and "," not in name
    return False


def _is_time(text: str) -> bool:
    try:
        return len(text) <= len(MOMENT) and instant(text).year >= MIN_YEAR
    except ValueError:
        return False


def _is_deeper(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 0 or any(_is_deeper(one, depth - 1) for one in inner)


@cache
def _adapter() -> TypeAdapter[NoteRecord]:
    return TypeAdapter(NoteRecord)
