"""Conversion of notes to the records that nodes exchange, and access to the values of a record."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from memory_mcp.clock import instant, precise_stamp
from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.storage import notes
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.notes.storage.sync import fields
from memory_mcp.services.sync.model import Outgoing
from memory_mcp.services.sync.records import NAMESPACE, NoteRecord, Register

PLAIN = ("content", "folder", "archived", "expires_at", NAMESPACE)

LINKS: tuple[Literal["link", "supersedes"], ...] = ("link", "supersedes")

WIKILINK = "wikilink"

IMPORTANCE = "importance"  # has no stamp: the greatest wins


# Notes as records


def records_of(tx: Read, ids: Sequence[str]) -> dict[str, NoteRecord]:
    """The records of existing and of permanently deleted notes."""
    seqs = fields.seqs_of(tx, ids)
    stamps, tags = fields.fields(tx, seqs.values()), fields.tags_sent(tx, seqs.values())
    found = {stored.note.id: stored for stored in notes.by_seq(tx, list(seqs.values()))}
    records = {id_: _record(found[id_], stamps[seq], tags[seq]) for id_, seq in seqs.items()}
    for id_, (namespace, stamp) in fields.tombstones(tx, ids).items():
        records[id_] = NoteRecord(id_, {NAMESPACE: (stamp, namespace)}, deleted=stamp)
    return records


def _record(
    stored: StoredNote, stamps: Mapping[str, tuple[str, str | None]], tags: Mapping[str, tuple[str, str]]
) -> NoteRecord:
    note = stored.note
    return NoteRecord(
        note.id,
        {name: _register(stored, tags, name, *stamp) for name, stamp in stamps.items() if name != IMPORTANCE},
        importance=max(note.importance, float(stamps.get(IMPORTANCE, ("", None))[1] or 0.0)),
        last_referenced_at=to_millisecond(note.last_referenced_at) if note.last_referenced_at else None,
        updated_at=to_millisecond(note.updated_at),
        created=(to_millisecond(note.created_at), note.client),
    )


def _register(
    stored: StoredNote, tags: Mapping[str, tuple[str, str]], name: str, stamp: str, value: str | None
) -> Register:
    kind, _, key = name.partition("/")
    if name in PLAIN:
        return stamp, getattr(stored.note, name)
    if name == "title":
        return stamp, stored.note.title if stored.has_own_title else None
    if kind == "tag":
        return (stamp, list(tags[key])) if key in tags else (stamp,)
    if kind == "metadata":
        return (stamp, stored.note.metadata[key]) if key in stored.note.metadata else (stamp,)
    return (stamp,) if value is None else (stamp, value)


def first_within(outgoing: Iterable[Outgoing], max_bytes: int) -> Iterator[Outgoing]:
    """As many records as fit in one push, at least one."""
    size = 0
    for number, one in enumerate(outgoing):
        size += len(str(one.record.registers).encode())
        if number and size > max_bytes:
            return
        yield one


def to_millisecond(text: str) -> str:
    """The time, to the millisecond: records compare times as text."""
    return precise_stamp(instant(text))


# Values of a record


def value_of(record: NoteRecord, name: str) -> Any:
    register = record.registers.get(name, ("",))
    return register[1] if len(register) == 2 else None


def text_of(record: NoteRecord, name: str, default: str) -> str:
    """The value in a record, or the default. `records.check_values` has checked that it is text."""
    return str(value_of(record, name)) if name in record.registers else default


def keyed_values(record: NoteRecord, kind: str) -> Iterator[tuple[str, Any]]:
    for name, register in record.registers.items():
        if name.startswith(f"{kind}/") and len(register) == 2:
            yield name.removeprefix(f"{kind}/"), register[1]


def expiry_of(record: NoteRecord) -> str | None:
    found = value_of(record, "expires_at")
    return to_millisecond(found) if found else None


def is_partial(record: NoteRecord) -> bool:
    return "content" not in record.registers


def stamps_of(merged: NoteRecord) -> dict[str, tuple[str, str | None]]:
    """The stamps to store, with the greatest importance: an archived note shows none."""
    kept = {name: _stored_stamp(name, register) for name, register in merged.registers.items() if _is_known(name)}
    return kept | {IMPORTANCE: ("", str(merged.importance or 0.0))}


def _stored_stamp(name: str, register: Register) -> tuple[str, str | None]:
    is_link = name.partition("/")[0] in (*LINKS, WIKILINK)
    return register[0], str(register[1]) if is_link and len(register) == 2 else None


def _is_known(name: str) -> bool:
    """Fields of a newer version are not stored: this version could only send them without their values."""
    return name in (*PLAIN, "title") or name.partition("/")[0] in ("tag", "metadata", WIKILINK, *LINKS)
