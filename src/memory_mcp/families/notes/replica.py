"""One user's notes as the other nodes see them: records of what is here, and the merging of what arrives.

Triggers stamp every change (migrations/0002_sync.sql); here stamps are only read, and those of others written.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from memory_mcp.clock import instant, precise_stamp
from memory_mcp.engines.sqlite import Database, Read, Write
from memory_mcp.errors import Invalid, NotFound, Unavailable
from memory_mcp.families.notes import markdown, transactions
from memory_mcp.families.notes.model import Author, Note, Tag, tag_key
from memory_mcp.families.notes.storage import index, links, notes, sync
from memory_mcp.families.notes.storage.notes import Stored
from memory_mcp.sync.model import NamespaceCursor, Outgoing, ReplicaState, SetAside, Synced
from memory_mcp.sync.protocol import MAX_AHEAD_MS
from memory_mcp.sync.records import NAMESPACE, Record, Register, merge

log = logging.getLogger(__name__)

PLAIN = ("content", "folder", "archived", "expires_at", NAMESPACE)
LINKS: tuple[Literal["link", "supersedes"], ...] = ("link", "supersedes")
WIKILINK = "wikilink"
IMPORTANCE = "importance"  # has no stamp: the greatest counts
STEADY = 500  # milliseconds that two clocks may differ from one exchange to the next without a word

Marks = Mapping[str, markdown.Marks]


@dataclass
class ReplicaChanges:
    """What arrived, for whoever listens: notes that changed, and the ids of those whose links did."""

    notes: list[Note] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)


class Replica:
    """Implements sync's Replica on the notes' file."""

    def __init__(self, user: str, db: Database, tell: Callable[[ReplicaChanges], None]) -> None:
        self._user = user
        self._db = db
        self._tell = tell

    def standing(self) -> ReplicaState:
        with self._db.read() as tx:
            return sync.standing(tx)

    def namespaces(self) -> list[Synced]:
        with self._db.read() as tx:
            return sync.namespaces(tx)

    def set_aside(self) -> list[SetAside]:
        with self._db.read() as tx:
            return sync.set_aside(tx)

    def places(self) -> list[NamespaceCursor]:
        with self._db.read() as tx:
            return sync.places(tx)

    def enable(self, namespace: str) -> None:
        with self._db.write() as tx:
            if not sync.is_tracked(tx, namespace):
                sync.track(tx, namespace)
            elif not sync.is_enabled(tx, namespace):
                sync.set_enabled(tx, namespace, True)
                sync.start_over(tx, namespace)  # what came while it was disabled was not taken

    def disable(self, namespace: str) -> None:
        with self._db.write() as tx:
            _require_synced(tx, namespace)
            sync.set_enabled(tx, namespace, False)

    def resync(self, namespace: str) -> None:
        with self._db.write() as tx:
            _require_synced(tx, namespace)
            sync.start_over(tx, namespace)

    def clear(self, namespace: str) -> None:
        with self._db.write() as tx:
            _require_synced(tx, namespace)
            sync.forget(tx, namespace)

    def outgoing(self, after: int, most: int, most_bytes: int) -> list[Outgoing]:
        changed = ReplicaChanges()
        with self._db.write() as tx:
            waiting = sync.outbox(tx, after, most)
            ids = [id_ for _, id_ in waiting]
            with _arriving(tx):
                _link_as_told(tx, ids, changed)
            records = _records(tx, ids)
            sync.acknowledge(tx, [ticket for ticket, id_ in waiting if id_ not in records])
            told = [Outgoing(ticket, records[id_]) for ticket, id_ in waiting if id_ in records]
            first = list(_first(told, most_bytes))
            if stamps := [stamp for one in first for stamp in one.record.stamps]:
                sync.set_exchanged(tx, max(stamps))
        self._tell(changed)
        return first

    def sent(
        self,
        outgoing: Sequence[Outgoing],
        refused: Mapping[str, str],
        merged: Sequence[Record],
        ticket: str,
        hub_now: str,
        set_aside: Sequence[SetAside] = (),
    ) -> None:
        marks = _marks(merged)
        with self._db.write() as tx:
            sync.set_ticket(tx, ticket)
            for one in outgoing:
                if why := refused.get(one.record.id):
                    sync.refuse(tx, one.ticket, why)
            taken = [one for one in outgoing if one.record.id not in refused]
            unchanged = sync.acknowledge(tx, [one.ticket for one in taken])
            with _arriving(tx):
                sync.be_as_at_the_hub(tx, unchanged, hub_now)
            sync.set_pushed(tx, [one.record.id for one in taken])
            changed = self._merge(tx, merged, marks, set_aside, namespace=None)
        self._tell(changed)

    def take_in(
        self,
        place: NamespaceCursor,
        records: Sequence[Record],
        cursor: int,
        ticket: str,
        left: int,
        set_aside: Sequence[SetAside] = (),
    ) -> None:
        marks = _marks(records)
        with self._db.write() as tx:
            changed = self._merge(tx, records, marks, set_aside, namespace=place.namespace)
            sync.set_ticket(tx, ticket)
            sync.set_read(tx, place, cursor, left)
        self._tell(changed)

    def start_over(self, hub: str | None, *, new_node: bool) -> None:
        with self._db.write() as tx:
            if new_node:
                sync.take_new_node(tx)
            sync.set_hub(tx, hub)
            sync.start_over(tx, None)

    def set_clock(self, hub_ms: int, here_ms: int) -> None:
        offset = hub_ms - here_ms
        with self._db.read() as tx:
            latest, exchanged, known = sync.clock(tx)
        behind = min(exchanged, here_ms) - hub_ms
        if behind > MAX_AHEAD_MS:
            raise Unavailable(
                f"The hub's clock is behind: by {behind / 1000:,.0f} s or more, going by what it took or gave "
                "before. Nothing is synced until the clock of the hub's computer is set."
            )
        highest = max(hub_ms + MAX_AHEAD_MS, exchanged)
        is_ahead = latest > highest
        if abs(offset - known) < STEADY and not is_ahead:
            return
        with self._db.write() as tx:
            sync.set_offset(tx, offset)
            if is_ahead:
                sync.lower_stamps(tx, highest, hub_ms)

    def ended(self, error: str | None) -> None:
        with self._db.write() as tx:
            sync.set_ended(tx, error)

    def _merge(
        self,
        tx: Write,
        records: Sequence[Record],
        marks: Marks,
        set_aside: Sequence[SetAside],
        *,
        namespace: str | None,
    ) -> ReplicaChanges:
        """Take in records one by one. One that cannot be merged is set aside, and the others still come in."""
        changed = ReplicaChanges()
        merged: list[str] = []
        aside = list(set_aside)
        with _arriving(tx):
            for record in records:
                mine = ReplicaChanges()
                try:
                    with tx.part():
                        merged += [record.id] if _merge(tx, self._user, record, marks, mine) else []
                except Invalid as exc:
                    aside.append(SetAside(record.id, exc.message))
                else:
                    changed.notes += mine.notes
                    changed.linked += mine.linked
            if stamps := [stamp for record in records for stamp in record.stamps]:
                sync.observe(tx, max(stamps))
                sync.set_exchanged(tx, max(stamps))
            concerned = [*dict.fromkeys(merged + changed.linked)]
            repointed = sync.point_as_told(tx, concerned)
        sync.take_back(tx, merged)
        if aside:
            log.warning("%d notes from the hub could not be taken in: `memory-mcp sync status` names them", len(aside))
            sync.put_aside(tx, aside, namespace)
        # Whatever nobody has told yet is chosen here, as if it were written here: the others are told.
        repointed += sync.resolve(tx, concerned)
        changed.linked += notes.ids_of(tx, repointed)
        return changed


@contextmanager
def _arriving(tx: Write) -> Iterator[None]:
    sync.set_arriving(tx, True)
    yield
    sync.set_arriving(tx, False)


# Records of what is here


def _records(tx: Read, ids: Sequence[str]) -> dict[str, Record]:
    """Of notes that are here, and of those that were deleted for good."""
    seqs = sync.seqs_of(tx, ids)
    stamps, tags = sync.fields(tx, seqs.values()), sync.tags_told(tx, seqs.values())
    found = {stored.note.id: stored for stored in notes.by_seq(tx, list(seqs.values()))}
    records = {id_: _record(found[id_], stamps[seq], tags[seq]) for id_, seq in seqs.items()}
    for id_, (namespace, stamp) in sync.tombstones(tx, ids).items():
        records[id_] = Record(id_, {NAMESPACE: (stamp, namespace)}, dead=stamp)
    return records


def _record(
    stored: Stored, stamps: Mapping[str, tuple[str, str | None]], tags: Mapping[str, tuple[str, str]]
) -> Record:
    note = stored.note
    return Record(
        note.id,
        {name: _register(stored, tags, name, *stamp) for name, stamp in stamps.items() if name != IMPORTANCE},
        importance=max(note.importance, float(stamps.get(IMPORTANCE, ("", None))[1] or 0.0)),
        last_referenced_at=_moment(note.last_referenced_at) if note.last_referenced_at else None,
        updated_at=_moment(note.updated_at),
        created=(_moment(note.created_at), note.client),
    )


def _register(
    stored: Stored, tags: Mapping[str, tuple[str, str]], name: str, stamp: str, value: str | None
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


def _moment(text: str) -> str:
    """To the millisecond: records are compared as they are written."""
    return precise_stamp(instant(text))


def _first(told: Iterable[Outgoing], most_bytes: int) -> Iterator[Outgoing]:
    """As many as may go together, at least one."""
    size = 0
    for number, one in enumerate(told):
        size += len(str(one.record.registers).encode())
        if number and size > most_bytes:
            return
        yield one


# What arrives


def _marks(records: Iterable[Record]) -> Marks:
    """What the bodies say to the machine, by body: parsing may take long, so it happens before the transaction."""
    bodies = {value for record in records if isinstance(value := _value(record, "content"), str)}
    return {body: markdown.marks(body) for body in bodies}


def _admit(tx: Write, stored: Stored | None, told: Record) -> tuple[Record | None, Record | None]:
    """What is here of a note, and what this node takes of a record that the hub gives. Only decided here:

    - a note that lies in a namespace which is not enabled here is untouched: nothing of the record is taken;
    - a note in an enabled namespace takes everything but a move to a namespace that is not enabled here: it stays;
    - a note that is not here is taken only into a namespace that is enabled here, and so is its deletion.

    What leaves this node is decided by `sync.outbox` alone. docs/sync.md says the same to users.
    """
    if stored and not sync.is_enabled(tx, stored.note.namespace):
        return None, None
    if stored and not sync.is_stamped(tx, stored.seq):
        sync.stamp_note(tx, stored.seq)  # what was never told of is as old as it is
    here = _records(tx, [told.id]).get(told.id)
    if sync.is_enabled(tx, told.namespace):
        return here, told
    if here is None:
        return None, None
    return here, replace(told, registers={**told.registers, NAMESPACE: here.registers[NAMESPACE]})


def _merge(tx: Write, user: str, told: Record, marks: Marks, changed: ReplicaChanges) -> bool:
    """Put together what is here and what arrived. False if nothing of it is this node's business."""
    stored = notes.get(tx, told.id)
    here, record = _admit(tx, stored, told)
    if record is None:
        return False
    merged = merge(here.yielding_to(record), record) if here else record
    if merged.dead:
        _bury(tx, stored, merged, changed)
    elif merged != here:
        _keep(tx, user, stored, merged, marks, changed)
    if here and _is_news(merged, record):
        sync.add_to_outbox(tx, record.id)
    return True


def _is_news(merged: Record, record: Record) -> bool:
    """Whether there is something to tell a hub that knows `record`."""
    if merged.dead:
        return not record.dead
    return merged != record and not _is_slim(record)


def _bury(tx: Write, stored: Stored | None, merged: Record, changed: ReplicaChanges) -> None:
    namespace = merged.namespace or (stored.note.namespace if stored else "")
    sync.bury(tx, merged.id, namespace, max(merged.stamps))
    if stored:
        gone, linking = transactions.delete(tx, stored)
        changed.notes += gone
        changed.linked += linking


def _keep(tx: Write, user: str, stored: Stored | None, merged: Record, marks: Marks, changed: ReplicaChanges) -> None:
    if stored is None:
        if _is_slim(merged):
            return  # only that it went somewhere: all of it comes with that namespace
        stored = _insert(tx, user, merged, marks, changed)
    else:
        stored = _rewrite(tx, stored, merged, marks, changed)
    _set_times(tx, stored, merged)
    sync.set_fields(tx, stored.seq, _stamps(merged))
    _link(tx, stored.seq, merged.registers, changed)
    changed.notes.append(stored.note)


def _insert(tx: Write, user: str, merged: Record, marks: Marks, changed: ReplicaChanges) -> Stored:
    note, has_own_title, tags = _told(merged, _nothing(user, merged, tx.precise_stamp), marks)
    stored = notes.insert(tx, note, has_own_title=has_own_title, previous=None, session_id=None)
    if note.archived:
        notes.update(tx, stored)
    notes.set_tags(tx, stored.seq, tags)
    body = _marks_of(note.content, marks)
    links.set_wikilinks(tx, stored.seq, body.links)
    changed.linked += notes.ids_of(tx, links.resolve_wikilinks(tx, stored.seq))
    index.index_words(tx, stored.seq)
    if not note.archived:
        index.QUEUE.add(tx, stored.seq)
    _link_as_told(tx, [note.id], changed)
    return stored


def _rewrite(tx: Write, former: Stored, merged: Record, marks: Marks, changed: ReplicaChanges) -> Stored:
    had = notes.tags_of(tx, former.seq)
    note, has_own_title, tags = _told(merged, former.note, marks)
    stored = replace(former, note=note, has_own_title=has_own_title)
    if stored != former or tags != had:
        changed.linked += transactions.rewrite(tx, former, stored, tags, _marks_of(note.content, marks))
        changed.notes.append(former.note)
    return stored


def _set_times(tx: Write, stored: Stored, merged: Record) -> None:
    created_at, _ = merged.created or (stored.note.created_at, None)
    updated_at = merged.updated_at or stored.note.updated_at
    sync.set_times(tx, stored.seq, created_at, updated_at, merged.last_referenced_at)


def _told(merged: Record, former: Note, marks: Marks) -> tuple[Note, bool, list[Tag]]:
    """The note that a record tells of, whether its title is its own, and its tags. What it does not tell stays."""
    content = _text(merged, "content", former.content)
    own_title = _value(merged, "title")
    namespace = _text(merged, NAMESPACE, former.namespace)
    archived = bool(_value(merged, "archived"))
    tags = _tags(merged, namespace, _marks_of(content, marks).tags)
    tags = transactions.with_state(tags) if archived else tags
    importance = former.importance if merged.importance is None else merged.importance
    note = replace(
        former,
        title=own_title or markdown.first_line(content),
        content=content,
        folder=_text(merged, "folder", former.folder),
        namespace=namespace,
        tags=[tag.name for tag in tags],
        importance=0.0 if archived else importance,
        metadata=_metadata(merged, former),
        expires_at=_expiry(merged),
        archived=archived,
    )
    return note, bool(own_title), tags


def _nothing(user: str, merged: Record, now: str) -> Note:
    """The note a record is put into that is new here."""
    created_at, client = merged.created or (merged.updated_at or now, None)
    return Note(
        id=merged.id,
        user_id=user,
        namespace="",
        title="",
        content="",
        folder="",
        tags=[],
        importance=0.0,
        metadata={},
        source="sync",
        client=client,
        created_at=created_at,
        updated_at=merged.updated_at or created_at,
        last_referenced_at=None,
        archived=False,
        expires_at=None,
        superseded_by=None,
        version=1,
    )


def _tags(merged: Record, namespace: str, inline: Collection[str]) -> list[Tag]:
    """Those that are told, in the order in which they were."""
    told = dict(_keyed(merged, "tag"))
    order = sorted(told, key=lambda key: (merged.registers[f"tag/{key}"][0], key))
    tags = [_tag(key, told[key]) for key in order]
    user = [tag.name for tag in tags if tag.origin == "user"]
    system = [tag.name for tag in tags if tag.origin == "system"]
    return transactions.merged_tags(user, [*system, *transactions.system_tags(Author("sync"), namespace)], inline)


def _tag(key: str, value: Any) -> Tag:
    name, origin = value
    if tag_key(name) != key:
        raise Invalid("A tag of it has another name than its field.")
    return Tag(name, origin)


def _metadata(merged: Record, former: Note) -> dict[str, Any]:
    """In the order the keys had here."""
    told = dict(_keyed(merged, "metadata"))
    kept = {key: value for key, value in former.metadata.items() if f"metadata/{key}" not in merged.registers}
    order = [key for key in former.metadata if key in kept or key in told]
    return {key: (kept | told)[key] for key in dict.fromkeys([*order, *told])}


def _link_as_told(tx: Write, ids: Collection[str], changed: ReplicaChanges) -> None:
    """Make and undo the links to these notes that waited until they are here, in a namespace that is enabled."""
    for source, name, is_made in sync.links_to(tx, ids):
        _link(tx, source, {name: ("", None) if is_made else ("",)}, changed)


def _link(tx: Write, seq: int, registers: Mapping[str, Register], changed: ReplicaChanges) -> None:
    """Make and undo links as told. One to a note that is not here, or lies where nothing is synced, waits for it."""
    for name, register in registers.items():
        kind, _, id_ = name.partition("/")
        target = sync.seqs_in_scope(tx, [id_]).get(id_) if kind in LINKS else None
        if target is None or target == seq:
            continue
        made = links.link(tx, seq, target, kind) if len(register) == 2 else links.undo(tx, seq, target, kind)
        if kind == "supersedes":
            links.refresh_superseded(tx, target)
        changed.linked += notes.ids_of(tx, [seq, target]) if made else []


def _stamps(merged: Record) -> dict[str, tuple[str, str | None]]:
    """As they are kept, with the greatest importance anybody gave it: an archived note shows none."""
    kept = {name: _kept(name, register) for name, register in merged.registers.items() if _is_known(name)}
    return kept | {IMPORTANCE: ("", str(merged.importance or 0.0))}


def _kept(name: str, register: Register) -> tuple[str, str | None]:
    is_link = name.partition("/")[0] in (*LINKS, WIKILINK)
    return register[0], str(register[1]) if is_link and len(register) == 2 else None


def _is_known(name: str) -> bool:
    """What a newer version tells beside stays at the hub: we could only tell it without its value."""
    return name in (*PLAIN, "title") or name.partition("/")[0] in ("tag", "metadata", WIKILINK, *LINKS)


def _is_slim(record: Record) -> bool:
    return "content" not in record.registers


def _marks_of(content: str, marks: Marks) -> markdown.Marks:
    return marks[content] if content in marks else markdown.marks(content)


def _keyed(record: Record, kind: str) -> Iterator[tuple[str, Any]]:
    for name, register in record.registers.items():
        if name.startswith(f"{kind}/") and len(register) == 2:
            yield name.removeprefix(f"{kind}/"), register[1]


def _value(record: Record, name: str) -> Any:
    register = record.registers.get(name, ("",))
    return register[1] if len(register) == 2 else None


def _expiry(record: Record) -> str | None:
    found = _value(record, "expires_at")
    return _moment(found) if found else None


def _text(record: Record, name: str, otherwise: str) -> str:
    """What a record says, or what is here. `records.check_values` has seen to it that it is a text."""
    return str(_value(record, name)) if name in record.registers else otherwise


def _require_synced(tx: Read, namespace: str) -> None:
    if not sync.is_tracked(tx, namespace):
        raise _not_synced(namespace)


def _not_synced(namespace: str) -> NotFound:
    return NotFound(f"The namespace {namespace!r} is not synced. `memory-mcp sync enable {namespace}` does it.")
