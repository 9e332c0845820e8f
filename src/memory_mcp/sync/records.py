"""What nodes tell each other of a note, and how two such tellings become one.

A record is state, not a change: merging is commutative, associative and idempotent, so records may be lost, come twice
or in any order, and all who have seen the same ones agree.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from memory_mcp.errors import Invalid

STAMP = r"^[0-9]{15}:[0-9]{5}:[0-9a-z]{1,32}$"
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"  # fixed width: compared as text
NAMESPACE = "namespace"
MOST_NAMED = 80  # characters of a field's name, where something is wrong with it

Stamp = Annotated[str, Field(pattern=STAMP)]
Moment = Annotated[str, Field(pattern=MOMENT)]
Name = Annotated[str, Field(min_length=1, max_length=4096)]
Register = tuple[Stamp] | tuple[Stamp, JsonValue]
"""When a field was last written, and what was written; without a value, it was removed."""

V = TypeVar("V")


@dataclass(frozen=True)
class Record:
    """All that a node knows of one note. What is missing is not known."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    id: Annotated[str, Field(min_length=1, max_length=64)]
    registers: Annotated[dict[Name, Register], Field(max_length=10_000)] = field(default_factory=dict)
    importance: Annotated[float, Field(ge=0, le=1)] | None = None
    last_referenced_at: Moment | None = None
    updated_at: Moment | None = None
    created: tuple[Moment, Annotated[str, Field(max_length=64)] | None] | None = None  # and by which client
    dead: Stamp | None = None  # deleted for good

    @property
    def namespace(self) -> str | None:
        found = self.registers.get(NAMESPACE, ("",))
        return found[1] if len(found) == 2 and isinstance(found[1], str) else None

    @property
    def stamps(self) -> list[str]:
        return [register[0] for register in self.registers.values()] + ([self.dead] if self.dead else [])

    @property
    def slim(self) -> "Record":
        """What those may know who have nothing to do with the namespace it is in: that it went there."""
        return Record(
            self.id, {name: value for name, value in self.registers.items() if name == NAMESPACE}, dead=self.dead
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
    """Raises Invalid saying what is wrong."""
    try:
        record = _adapter().validate_python(told)
        json.dumps(told, ensure_ascii=False, allow_nan=False).encode()
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part)[:MOST_NAMED] for part in first["loc"])
        raise Invalid(f"{where}: {first['msg']}.") from exc
    except (ValueError, RecursionError) as exc:
        raise Invalid("Not text in UTF-8 and numbers that are finite.") from exc
    return record


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)
