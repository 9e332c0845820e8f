"""Exports, imports and sync of notes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.families.notes import former_versions, markdown, transactions
from memory_mcp.families.notes.change_events import NoteEvents
from memory_mcp.families.notes.model import Author, ImportedNote, Note, Tag
from memory_mcp.families.notes.replica import NoteReplica
from memory_mcp.families.notes.replica_merge import ReplicaChanges
from memory_mcp.families.notes.storage import index, links, notes, session_order
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.notes.storage.sync import fields
from memory_mcp.families.notes.storage.writes import WRITES, link_write, note_write
from memory_mcp.services.search_index import IndexFiles


@dataclass(frozen=True)
class SessionPosition:
    """The session or conversation that a note was written in, and the note just before it there."""

    session_id: str | None = None
    previous_id: str | None = None


@dataclass(frozen=True)
class PortableNote:
    """A note as exports have it."""

    note: Note
    user_tags: Sequence[str]
    has_own_title: bool
    position: SessionPosition


class NoteTransfer:
    def __init__(self, files: IndexFiles, events: NoteEvents) -> None:
        self._files = files
        self._events = events

    def everything(self, caller: Caller) -> Iterator[PortableNote]:
        """Every note, including archived ones, in the order they were written."""
        with self._db(caller).read() as tx:
            for stored in notes.everything(tx):
                yield _portable(tx, stored)

    def count(self, caller: Caller) -> int:
        """How many notes `everything` has."""
        with self._db(caller).read() as tx:
            return notes.count_everything(tx)

    def every_link(self, caller: Caller) -> Iterator[tuple[str, str, str, str]]:
        """(source id, target id, kind, creation time) of every explicit link."""
        with self._db(caller).read() as tx:
            yield from links.everything(tx)

    def has(self, caller: Caller, id_: str) -> bool:
        with self._db(caller).read() as tx:
            return notes.get(tx, id_, caller.confined_to) is not None

    def imported(self, caller: Caller, format_: str) -> dict[str, ImportedNote]:
        """The notes from imports of a format, by their ids in the source."""
        with self._db(caller).read() as tx:
            return {note.origin.id: note for note in notes.imported(tx, format_)}

    def add(self, caller: Caller, imported: PortableNote, *, dry_run: bool = False) -> bool:
        """Store an imported note with its id, times and version number. False, and nothing is changed, if a note of
        this id exists or was deleted permanently. A note that came with an import which was undone is restored. A dry
        run returns the same."""
        note = imported.note
        transactions.check_text(note.content)
        transactions.checked_metadata(note.metadata)
        if dry_run:
            with self._db(caller).read() as tx:
                return _undone_import(tx, note) is not None or not _exists_or_was_deleted(tx, note.id)
        with self._db(caller).write() as tx:
            added = _add(tx, caller, imported)
        if added is None:
            return False
        added_note, linking = added
        self._events.publish(caller.user, [added_note], linked=linking, list_changed=True)
        return True

    def add_link(self, caller: Caller, source_id: str, target_id: str, kind: str) -> bool:
        """Import a link. False if it exists already. Raises NotFound if either note is missing."""
        with self._db(caller).write() as tx:
            source, target = transactions.link_ends(tx, source_id, target_id, caller.confined_to)
            linked = links.link(tx, source.seq, target.seq, kind)
            if kind == "supersedes":
                links.refresh_superseded(tx, target.seq)
            if linked:
                WRITES.record(tx, caller, link_write(source.note.id, target.note.id, kind, "created"))
        if linked:
            self._events.publish_links(caller.user, source, target)
        return bool(linked)

    def replica(self, user: str) -> NoteReplica:
        """A user's notes, for sync."""
        return NoteReplica(user, self._files.of(user).db, partial(self._publish_changes, user))

    def _publish_changes(self, user: str, changed: ReplicaChanges) -> None:
        if changed.notes or changed.linked:
            self._files.worker.wake()
            self._events.publish(user, changed.notes, linked=changed.linked, list_changed=True)

    def _db(self, caller: Caller) -> UserDatabase:
        return self._files.of(caller.user).db


def _portable(tx: Read, stored: StoredNote) -> PortableNote:
    user_tags = [tag.name for tag in notes.tags_of(tx, stored.seq) if tag.origin == "user"]
    return PortableNote(
        stored.note, user_tags, stored.has_own_title, SessionPosition(*session_order.position(tx, stored.seq))
    )


def _add(tx: Write, caller: Caller, imported: PortableNote) -> tuple[Note, list[str]] | None:
    """Returns the note and the ids of notes whose links changed. None if it exists or was deleted permanently."""
    note = imported.note
    if undone := _undone_import(tx, note):
        linking = former_versions.restore(tx, undone, undone.note.version - 1)
        restored = transactions.existing(tx, note.id, None).note
        WRITES.record(tx, caller, note_write(note.id, "updated", restored.version))
        return restored, linking
    if _exists_or_was_deleted(tx, note.id):
        return None
    added, linking = _insert(tx, caller, imported)
    WRITES.record(tx, caller, note_write(note.id, "created", note.version))
    return added, linking


def _insert(tx: Write, caller: Caller, imported: PortableNote) -> tuple[Note, list[str]]:
    """Returns the note and the ids of notes whose links changed."""
    marks = markdown.marks(imported.note.content)
    tags = _all_tags(imported, marks)
    note = replace(
        imported.note,
        user_id=caller.user,
        title=imported.note.title if imported.has_own_title else markdown.first_line(imported.note.content),
        tags=[tag.name for tag in tags],
    )
    stored = notes.insert(
        tx,
        note,
        has_own_title=imported.has_own_title,
        previous=_seq_before(tx, imported),
        session_id=imported.position.session_id,
    )
    if note.archived or note.version != 1:
        notes.update(tx, stored)
    notes.set_referenced(tx, stored.seq, note.last_referenced_at)
    notes.set_tags(tx, stored.seq, tags)
    links.set_wikilinks(tx, stored.seq, marks.links)
    linking = notes.ids_of(tx, links.resolve_wikilinks(tx, stored.seq))
    index.index_words(tx, stored.seq)
    if not note.archived:
        index.QUEUE.add(tx, stored.seq)
    return note, linking


def _all_tags(imported: PortableNote, marks: markdown.Marks) -> list[Tag]:
    author = Author(imported.note.source, imported.note.client)
    of_system = transactions.system_tags(author, imported.note.namespace)
    tags = transactions.merged_tags(imported.user_tags, of_system, marks.tags)
    return transactions.with_archived_tag(tags) if imported.note.archived else tags


def _seq_before(tx: Read, imported: PortableNote) -> int | None:
    """The seq of the note before it. None if its namespace has no such note, or only an archived one."""
    if imported.position.previous_id is None or imported.note.archived:
        return None
    before = notes.get(tx, imported.position.previous_id, imported.note.namespace)
    return before.seq if before and not before.note.archived else None


def _exists_or_was_deleted(tx: Read, id_: str) -> bool:
    return notes.get(tx, id_) is not None or bool(fields.tombstones(tx, [id_]))


def _undone_import(tx: Read, note: Note) -> StoredNote | None:
    """The note of this id and text, if an import stored it, an undo deleted it, and nothing changed it since."""
    stored = notes.get(tx, note.id)
    if stored is None or not stored.note.archived or note.archived or stored.note.content != note.content:
        return None
    records = WRITES.history(tx, [note.id])[note.id]
    if not records or records[0].writer.source != "import":
        return None
    is_undone = records[-1].undo_id is not None and records[-1].after == str(stored.note.version)
    return stored if is_undone and notes.former(tx, stored, stored.note.version - 1, None) else None
