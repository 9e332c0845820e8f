"""The merge of other nodes' records into local notes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Write
from memory_mcp.errors import Invalid
from memory_mcp.families.notes import markdown, transactions
from memory_mcp.families.notes.model import Author, Note, Tag, tag_key
from memory_mcp.families.notes.replica_records import (
    LINKS,
    expiry_of,
    is_partial,
    keyed_values,
    records_of,
    stamps_of,
    text_of,
    value_of,
)
from memory_mcp.families.notes.storage import index, links, notes
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.notes.storage.sync import fields, namespaces, outbox
from memory_mcp.families.notes.storage.writes import WRITES, note_write
from memory_mcp.services.sync.records import NAMESPACE, NoteRecord, Register, merge

MarksByContent = Mapping[str, markdown.Marks]


@dataclass
class ReplicaChanges:
    """The changes of a merge: notes, and the ids of notes whose links changed."""

    notes: list[Note] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)


def parse_bodies(records: Iterable[NoteRecord]) -> MarksByContent:
    """The tags and links in the bodies, by body. Parsing may take long, so it happens before the transaction."""
    bodies = {value for record in records if isinstance(value := value_of(record, "content"), str)}
    return {body: markdown.marks(body) for body in bodies}


def _admit(tx: Write, stored: StoredNote | None, arrived: NoteRecord) -> tuple[NoteRecord | None, NoteRecord | None]:
    """The local record of a note, and the part of the hub's record that this node accepts. Only decided here:

    - a local note in a namespace that is not enabled stays unchanged: nothing is accepted;
    - a local note in an enabled namespace accepts everything except a move to a namespace that is not enabled;
    - a note that does not exist here, or its deletion, is accepted only into an enabled namespace.

    `outbox.pending` alone decides what is sent. docs/sync.md explains both to users.
    """
    if stored and not namespaces.is_enabled(tx, stored.note.namespace):
        return None, None
    if stored and not fields.is_stamped(tx, stored.seq):
        fields.stamp_note(tx, stored.seq)  # a note that was never sent keeps its age
    here = records_of(tx, [arrived.id]).get(arrived.id)
    if namespaces.is_enabled(tx, arrived.namespace):
        return here, arrived
    if here is None:
        return None, None
    return here, replace(arrived, registers={**arrived.registers, NAMESPACE: here.registers[NAMESPACE]})


def merge_record(tx: Write, user: str, arrived: NoteRecord, marks: MarksByContent, changed: ReplicaChanges) -> bool:
    """Merge a record into the local note. False if nothing of it is accepted."""
    stored = notes.get(tx, arrived.id)
    here, record = _admit(tx, stored, arrived)
    if record is None:
        return False
    merged = merge(here.with_hub_values(record), record) if here else record
    if merged.deleted:
        _delete(tx, user, stored, merged, changed)
    elif merged != here:
        _store(tx, user, stored, merged, marks, changed)
    if here and _is_newer_than_hub(merged, record):
        outbox.add(tx, record.id)
    return True


def _is_newer_than_hub(merged: NoteRecord, record: NoteRecord) -> bool:
    """Whether the merged record has something that the hub's `record` lacks."""
    if merged.deleted:
        return not record.deleted
    return merged != record and not is_partial(record)


def _delete(tx: Write, user: str, stored: StoredNote | None, merged: NoteRecord, changed: ReplicaChanges) -> None:
    namespace = merged.namespace or (stored.note.namespace if stored else "")
    fields.add_tombstone(tx, merged.id, namespace, max(merged.stamps))
    if stored:
        gone, linking = transactions.delete(tx, _other_node(user), stored)
        changed.notes += gone
        changed.linked += linking


def _store(
    tx: Write, user: str, stored: StoredNote | None, merged: NoteRecord, marks: MarksByContent, changed: ReplicaChanges
) -> None:
    if stored is None:
        if is_partial(merged):
            return  # only a move: the whole note comes with its namespace
        stored = _insert(tx, user, merged, marks, changed)
    else:
        stored = _rewrite(tx, user, stored, merged, marks, changed)
    _set_times(tx, stored, merged)
    fields.set_fields(tx, stored.seq, stamps_of(merged))
    _link(tx, stored.seq, merged.registers, changed)
    changed.notes.append(stored.note)


def _insert(tx: Write, user: str, merged: NoteRecord, marks: MarksByContent, changed: ReplicaChanges) -> StoredNote:
    note, has_own_title, tags = _note_from(merged, _empty_note(user, merged, tx.precise_stamp), marks)
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
    link_waiting(tx, [note.id], changed)
    WRITES.record(tx, _other_node(user, note.client), note_write(note.id, "created", note.version))
    return stored


def _rewrite(
    tx: Write, user: str, former: StoredNote, merged: NoteRecord, marks: MarksByContent, changed: ReplicaChanges
) -> StoredNote:
    had = notes.tags_of(tx, former.seq)
    note, has_own_title, tags = _note_from(merged, former.note, marks)
    stored = replace(former, note=note, has_own_title=has_own_title)
    if stored != former or tags != had:
        changed.linked += transactions.rewrite(tx, former, stored, tags, _marks_of(note.content, marks))
        WRITES.record(tx, _other_node(user), note_write(note.id, "updated", former.note.version + 1))
        changed.notes.append(former.note)
    return stored


def _other_node(user: str, client: str | None = None) -> Caller:
    """Who wrote, for the journal. Records say which client created a note, but not which one changed it."""
    return Caller(user, frozenset(), frozenset(), source="sync", client=client or "")


def _set_times(tx: Write, stored: StoredNote, merged: NoteRecord) -> None:
    created_at, _ = merged.created or (stored.note.created_at, None)
    updated_at = merged.updated_at or stored.note.updated_at
    fields.set_times(tx, stored.seq, created_at, updated_at, merged.last_referenced_at)


# The note that a record describes


def _note_from(merged: NoteRecord, former: Note, marks: MarksByContent) -> tuple[Note, bool, list[Tag]]:
    """The note that a record describes, whether it has its own title, and its tags. Missing fields stay."""
    content = text_of(merged, "content", former.content)
    own_title = value_of(merged, "title")
    namespace = text_of(merged, NAMESPACE, former.namespace)
    archived = bool(value_of(merged, "archived"))
    tags = _tags(merged, namespace, _marks_of(content, marks).tags)
    tags = transactions.with_archived_tag(tags) if archived else tags
    importance = former.importance if merged.importance is None else merged.importance
    note = replace(
        former,
        title=own_title or markdown.first_line(content),
        content=content,
        folder=text_of(merged, "folder", former.folder),
        namespace=namespace,
        tags=[tag.name for tag in tags],
        importance=0.0 if archived else importance,
        metadata=_metadata(merged, former),
        expires_at=expiry_of(merged),
        archived=archived,
    )
    return note, bool(own_title), tags


def _empty_note(user: str, merged: NoteRecord, now: str) -> Note:
    """An empty note for a record of a new note."""
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


def _tags(merged: NoteRecord, namespace: str, inline: Collection[str]) -> list[Tag]:
    """The record's tags, in the order in which they were written."""
    given = dict(keyed_values(merged, "tag"))
    order = sorted(given, key=lambda key: (merged.registers[f"tag/{key}"][0], key))
    tags = [_tag(key, given[key]) for key in order]
    user = [tag.name for tag in tags if tag.origin == "user"]
    system = [tag.name for tag in tags if tag.origin == "system"]
    return transactions.merged_tags(user, [*system, *transactions.system_tags(Author("sync"), namespace)], inline)


def _tag(key: str, value: Any) -> Tag:
    name, origin = value
    if tag_key(name) != key:
        raise Invalid("A tag has another name than its field.")
    return Tag(name, origin)


def _metadata(merged: NoteRecord, former: Note) -> dict[str, Any]:
    """The metadata, with the local order of the keys."""
    given = dict(keyed_values(merged, "metadata"))
    kept = {key: value for key, value in former.metadata.items() if f"metadata/{key}" not in merged.registers}
    order = [key for key in former.metadata if key in kept or key in given]
    return {key: (kept | given)[key] for key in dict.fromkeys([*order, *given])}


def _marks_of(content: str, marks: MarksByContent) -> markdown.Marks:
    return marks[content] if content in marks else markdown.marks(content)


# Links


def link_waiting(tx: Write, ids: Collection[str], changed: ReplicaChanges) -> None:
    """Make and remove the links that waited for these notes to exist in an enabled namespace."""
    for source, name, is_made in fields.links_to(tx, ids):
        _link(tx, source, {name: ("", None) if is_made else ("",)}, changed)


def _link(tx: Write, seq: int, registers: Mapping[str, Register], changed: ReplicaChanges) -> None:
    """Make and remove links according to a record. A link waits while its target does not exist in an enabled
    namespace."""
    for name, register in registers.items():
        kind, _, id_ = name.partition("/")
        target = fields.seqs_in_scope(tx, [id_]).get(id_) if kind in LINKS else None
        if target is None or target == seq:
            continue
        made = links.link(tx, seq, target, kind) if len(register) == 2 else links.unlink_kind(tx, seq, target, kind)
        if kind == "supersedes":
            links.refresh_superseded(tx, target)
        changed.linked += notes.ids_of(tx, [seq, target]) if made else []
