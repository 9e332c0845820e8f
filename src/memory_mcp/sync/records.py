"""What nodes tell each other of a note, and how two such tellings become one.

A record is state, not a change: merging is commutative, associative and idempotent, so records may be lost, come twice
or in any order, and all who have seen the same ones agree.
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
from memory_mcp.sync.protocol import (
    MAX_RECORD_BYTES,
    MAX_RECORD_VALUES,
    MAX_STAMP_MS,
    count_values,
    is_namespace,
    printable,
)

STAMP = r"^[0-9]{15}:[0-9]{5}:[0-9a-z]{1,32}$"
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"  # fixed width: compared as text
ID = r"^[!-.0-~]{1,64}$"  # printable ASCII without a slash
NAMESPACE = "namespace"
DEAD = "dead"  # where notes are sealed, also a register: the proof that a node deleted the note
OPEN = "open"  # of a namespace that is sealed: its name, which the hub needs
MAX_FIELD_NAME_CHARS = 80  # characters of a field's name, where something is wrong with it
MAX_FIELDS = 10_000
MAX_NAME_CHARACTERS = 4096
MAX_TEXT_CHARACTERS = 1024 * 1024
MAX_TITLE_CHARACTERS = 4096
MAX_FOLDER_CHARACTERS = 512
MAX_TAG_CHARACTERS = 128
MAX_DEPTH = 100  # of lists and objects within each other: SQLite and Python end at about 1,000
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
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS), AfterValidator(_check_name)]
Id = Annotated[str, Field(pattern=ID)]
Register = tuple[Stamp] | tuple[Stamp, JsonValue]
"""When a field was last written, and what was written; without a value, it was removed."""

V = TypeVar("V")


@dataclass(frozen=True)
class Record:
    """All that a node knows of one note. What is missing is not known."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    id: Id
    registers: Annotated[dict[Name, Register], Field(max_length=MAX_FIELDS)] = field(default_factory=dict)
    importance: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    last_referenced_at: Moment | None = None
    updated_at: Moment | None = None
    created: tuple[Moment, Annotated[str, Field(max_length=64)] | None] | None = None  # and by which client
    dead: Stamp | None = None  # deleted for good

    @property
    def namespace(self) -> str | None:
        register = self.registers.get(NAMESPACE, ("",))
        value = register[1] if len(register) == 2 else None
        found = value.get(OPEN) if isinstance(value, dict) else value
        return found if isinstance(found, str) and is_namespace(found) else None

    @property
    def stamps(self) -> list[str]:
        return [register[0] for register in self.registers.values()] + ([self.dead] if self.dead else [])

    @property
    def slim(self) -> "Record":
        """What those may know who have nothing to do with the namespace it is in: that it went there."""
        return Record(
            self.id,
            {name: value for name, value in self.registers.items() if name in (NAMESPACE, DEAD)},
            dead=self.dead,
        )

    def yielding_to(self, hub: "Record") -> "Record":
        """The same, but what was written at the same stamp, by a node that is there twice, is as the hub has it: it
        orders such values as it sees them, which may be sealed."""
        decided = {
            name: register
            for name, register in hub.registers.items()
            if name in self.registers and self.registers[name][0] == register[0]
        }
        return replace(self, registers={**self.registers, **decided})


def merge(one: Record, other: Record) -> Record:
    """What follows from both. A deletion wins for good, and takes everything with it."""
    dead = _later(one.dead, other.dead)
    registers = _registers(one.registers, other.registers)
    if dead:
        return Record(one.id, registers, dead=dead).slim
    return Record(
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
    """The later stamp wins. Two equal ones with different values come from a node that is there twice: then any order
    will do that is the same everywhere."""
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


def at_most(record: Record, latest: str) -> Record:
    """Times of a clock that runs ahead are cut: otherwise nobody could ever be later."""
    return replace(
        record,
        last_referenced_at=record.last_referenced_at and min(record.last_referenced_at, latest),
        updated_at=record.updated_at and min(record.updated_at, latest),
    )


# As JSON


def as_json(record: Record) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in vars(record).items() if value is not None and name in FIELDS}


FIELDS = ("id", "registers", "importance", "last_referenced_at", "updated_at", "created", "dead")


def parse(told: object) -> Record:
    """A record as it comes, sealed or not. Raises Invalid saying what is wrong."""
    try:
        record = _adapter().validate_python(told)
        text = json.dumps(told, ensure_ascii=False, allow_nan=False).encode()
    except ValidationError as exc:
        first = exc.errors()[0]
        where = printable(".".join(str(part)[:MAX_FIELD_NAME_CHARS] for part in first["loc"]), 2 * MAX_FIELD_NAME_CHARS)
        raise Invalid(f"{where}: {first['msg']}.") from exc
    except (ValueError, RecursionError) as exc:
        raise Invalid("Not text in UTF-8 and numbers that are finite.") from exc
    if len(text) > MAX_RECORD_BYTES:
        raise Invalid(f"It is over {MAX_RECORD_BYTES:,} bytes.")
    if count_values(text) > MAX_RECORD_VALUES:
        raise Invalid(f"It has over {MAX_RECORD_VALUES:,} values.")
    return record


def check_size(record: Record) -> None:
    """Raises Invalid if a record became too large by merging: nodes would refuse it."""
    if len(record.registers) > MAX_FIELDS:
        raise Invalid(f"Together with what is known of it, it has over {MAX_FIELDS:,} fields.")
    text = json.dumps(as_json(record), ensure_ascii=False).encode()
    if len(text) > MAX_RECORD_BYTES:
        raise Invalid(f"Together with what is known of it, it is over {MAX_RECORD_BYTES:,} bytes.")
    if count_values(text) > MAX_RECORD_VALUES:
        raise Invalid(f"Together with what is known of it, it has over {MAX_RECORD_VALUES:,} values.")


def check_values(record: Record) -> None:
    """Whether every field that is known here has a value that a note can have. Not for a record that is sealed.

    Raises Invalid saying which has not.
    """
    for name, register in record.registers.items():
        value = register[1] if len(register) == 2 else None
        kind, _, key = name.partition("/")
        if not _fits(kind, key, value, is_removed=len(register) == 1):
            raise Invalid(f"{printable(name, MAX_FIELD_NAME_CHARS)}: no value that a note can have.")


def _fits(kind: str, key: str, value: Any, *, is_removed: bool) -> bool:
    match kind:
        case "content" | "folder" if not key:
            longest = MAX_TEXT_CHARACTERS if kind == "content" else MAX_FOLDER_CHARACTERS
            return isinstance(value, str) and len(value) <= longest
        case "namespace" if not key:
            return is_namespace(value)
        case "title" if not key:
            return value is None or (isinstance(value, str) and len(value) <= MAX_TITLE_CHARACTERS)
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
            return 0 < len(name) <= MAX_TAG_CHARACTERS and "," not in name
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
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)
