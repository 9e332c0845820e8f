"""Writing notes: create, change, delete and link them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import UserDatabase
from memory_mcp.errors import Unavailable
from memory_mcp.families.notes import former_versions, markdown, transactions
from memory_mcp.families.notes.change_events import NoteEvents
from memory_mcp.families.notes.journal_items import NoteItems
from memory_mcp.families.notes.model import Author, Deleted, Filter, Linked, NewNote, Note, Revision, Unlinked
from memory_mcp.families.notes.storage import index, links, lists, notes
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.notes.storage.writes import WRITES, link_item, link_write, note_write
from memory_mcp.families.references import changed_meanwhile
from memory_mcp.families.writes import Journal, StateUndo
from memory_mcp.services.search_index import IndexFile, IndexFiles

MAX_DUPLICATES_SHOWN = 10  # ids of similar notes in the answer to a write


class NoteWriter:
    def __init__(self, files: IndexFiles, events: NoteEvents) -> None:
        self._files = files
        self._events = events

    def create(self, caller: Caller, author: Author, new: NewNote) -> Note:
        """Store a new note. It can be found by words at once and by meaning soon.

        Duplicates are allowed: `similar` names the notes with nearly the same text. Raises NotFound, and stores
        nothing, if a note to supersede does not exist.
        """
        file = self._files.of(caller.user)
        [stored] = self._insert(file, caller, author, [new])
        return replace(stored.note, similar=self._find_similar(file, stored) or None)

    def create_all(self, caller: Caller, author: Author, several: Sequence[NewNote]) -> list[Note]:
        """Store several new notes in one transaction, without searching for similar ones."""
        inserted = self._insert(self._files.of(caller.user), caller, author, several)
        self._files.worker.wake()
        return [stored.note for stored in inserted]

    def _insert(self, file: IndexFile, caller: Caller, author: Author, several: Sequence[NewNote]) -> list[StoredNote]:
        for new in several:
            transactions.check_text(new.content)
        marks = [markdown.marks(new.content) for new in several]  # may take long, so it happens before the transaction
        with file.db.write() as tx:
            inserted = [transactions.insert(tx, caller, author, *one) for one in zip(several, marks, strict=True)]
        self._events.publish(
            caller.user,
            [stored.note for stored, _ in inserted],
            linked=[id_ for _, linked in inserted for id_ in linked],
            list_changed=True,
        )
        return [stored for stored, _ in inserted]

    def update(self, caller: Caller, author: Author, id_: str, revision: Revision, *, was: str | None = None) -> Note:
        """Change a note and store its former version. Fields that are not named stay; system tags always stay.

        Raises Conflict with the code `changed` if `was` is given and the content is another by now."""
        if revision.content is not None:
            transactions.check_text(revision.content)
        if revision.namespace is not None:
            transactions.namespace_for(caller, revision.namespace)
        file = self._files.of(caller.user)
        while True:
            # Parsing may take long, so it happens before the transaction. It is repeated if the note changes.
            with file.db.read() as reading:
                seen = transactions.existing(reading, id_, caller.confined_to).note
            marks = markdown.marks(seen.content if revision.content is None else revision.content)
            with file.db.write() as tx:
                former = transactions.existing(tx, id_, caller.confined_to)
                if was is not None and former.note.content != was:
                    raise changed_meanwhile("The note")
                if former.note.version == seen.version or revision.content is not None:
                    update = transactions.update(tx, caller, author, former, revision, marks)
                    break
        self._files.worker.wake()
        stored = update.stored
        if update.is_change:
            moved = (stored.note.archived, stored.note.namespace) != (former.note.archived, former.note.namespace)
            self._events.publish(caller.user, [former.note, stored.note], linked=update.linked, list_changed=moved)
        says_otherwise = stored.note.content != former.note.content
        return replace(stored.note, similar=(self._find_similar(file, stored) if says_otherwise else None) or None)

    def revert(self, caller: Caller, id_: str, version: int) -> Note:
        """Undo the last change of a note: it gets its former version again, and the date of that.

        Raises Conflict with the code `changed` unless that version is the last one before the present one."""
        with self._db(caller).write() as tx:
            present = transactions.existing(tx, id_, caller.confined_to)
            if present.note.version != version + 1:
                raise changed_meanwhile("The note")
            linked = former_versions.restore(tx, present, version)
            stored = transactions.existing(tx, id_, caller.confined_to)
            WRITES.record(tx, caller, note_write(id_, "updated", stored.note.version))
        self._files.worker.wake()
        self._events.publish(caller.user, [present.note, stored.note], linked=linked, list_changed=True)
        return stored.note

    def delete(self, caller: Caller, id_: str, *, soft: bool) -> Deleted:
        """Archive a note, or delete it permanently with its links and former versions."""
        file = self._files.of(caller.user)
        with file.db.write() as tx:
            former = transactions.existing(tx, id_, caller.confined_to)
            remove = transactions.archive if soft else transactions.delete
            changed_meanwhile, linking = remove(tx, caller, former)
        if not soft:
            file.vectors.erase_deleted()
        self._files.worker.wake()
        if changed_meanwhile:
            self._events.publish(caller.user, changed_meanwhile, linked=linking, list_changed=True)
        return Deleted(former.note.id, True, soft)

    def delete_unchanged(self, caller: Caller, versions: Mapping[str, int]) -> tuple[int, int]:
        """Delete notes permanently in one transaction, except those with another version than the given one. Returns
        how many are deleted and how many stay; missing notes are no error."""
        deleted: list[Note] = []
        linking: list[str] = []
        kept = 0
        with self._db(caller).write() as tx:
            for id_, version in versions.items():
                stored = notes.get(tx, id_, caller.confined_to)
                if stored and stored.note.version == version:
                    changed, linked = transactions.delete(tx, caller, stored)
                    deleted += changed
                    linking += linked
                elif stored:
                    kept += 1
        self._files.worker.wake()
        if deleted:
            self._files.of(caller.user).vectors.erase_deleted()
            self._events.publish(caller.user, deleted, linked=linking, list_changed=True)
        return len(deleted), kept

    def link(self, caller: Caller, source_id: str, target_id: str, *, bidirectional: bool) -> Linked:
        """Link two notes. Raises NotFound if either does not exist."""
        with self._db(caller).write() as tx:
            source, target = transactions.link_ends(tx, source_id, target_id, caller.confined_to)
            ends = [(source, target), *([(target, source)] if bidirectional else [])]
            new = [two for two in ends if links.link(tx, two[0].seq, two[1].seq, "link")]
            WRITES.record(
                tx, caller, *(link_write(one.note.id, other.note.id, "link", "created") for one, other in new)
            )
        if new:
            self._events.publish_links(caller.user, source, target)
        return Linked(len(new))

    def unlink(self, caller: Caller, source_id: str, target_id: str, *, bidirectional: bool) -> Unlinked:
        """Remove links. A [[wikilink]] stays as long as it is in the body."""
        with self._db(caller).write() as tx:
            source, target = transactions.link_ends(tx, source_id, target_id, caller.confined_to)
            ends = [(source, target), *([(target, source)] if bidirectional else [])]
            gone = [(one, other, kind) for one, other in ends for kind in links.unlink(tx, one.seq, other.seq)]
            WRITES.record(
                tx, caller, *(link_write(one.note.id, other.note.id, kind, "deleted") for one, other, kind in gone)
            )
        if gone:
            self._events.publish_links(caller.user, source, target)
        return Unlinked(len(gone))

    def journals(self, caller: Caller) -> list[Journal]:
        db = self._db(caller)
        items = NoteItems(caller.confined_to)
        undo = StateUndo(items, db.read, lambda undone: db.write(), partial(self._publish_undone, caller))
        return [Journal(items, db.read, undo)]

    def _publish_undone(self, caller: Caller, items: Sequence[str]) -> None:
        self._files.worker.wake()
        ids = [id_ for item in items for id_ in (link_item(item) or ("", item))[1:]]
        with self._db(caller).read() as tx:
            changed = [stored.note for id_ in dict.fromkeys(ids) if (stored := notes.get(tx, id_))]
        self._events.publish(caller.user, changed, linked=(), list_changed=True)

    def reindex(self, caller: Caller) -> int:
        """Queue every note to be embedded again, by an embedder that is chosen again. Returns how many wait.

        Search uses the old vectors until they are replaced, or until another model takes over.
        """
        with self._db(caller).write() as tx:
            index.VECTORS.renew(tx)
            waiting = index.count_waiting(tx)
        self._files.worker.wake()
        self._events.publish_vectors(caller.user)
        return waiting

    def _find_similar(self, file: IndexFile, stored: StoredNote) -> list[str]:
        """The other notes of the namespace with the same or nearly the same text, as far as vectors exist in time.

        The note is stored already, so errors here are ignored.
        """
        self._files.worker.wake()
        found: list[str] = []
        with suppress(Unavailable):
            self._files.worker.wait_for(lambda: not _is_queued(file.db, stored.seq))
        with suppress(Unavailable):
            with file.db.read() as tx:
                tx.prefetch(
                    notes.equal_texts_query(tx, stored.seq, MAX_DUPLICATES_SHOWN),
                    index.VECTORS.first_query(stored.seq),
                )
                found += notes.equal_texts(tx, stored.seq, MAX_DUPLICATES_SHOWN)
                near = list(file.vectors.near_text(tx, stored.seq))
                here = set(lists.matching(tx, Filter(namespace=stored.note.namespace), among=near))
                others = notes.by_seq(tx, [seq for seq in near if seq in here][:MAX_DUPLICATES_SHOWN])
            found += [other.note.id for other in others]
        return list(dict.fromkeys(found))[:MAX_DUPLICATES_SHOWN]

    def _db(self, caller: Caller) -> UserDatabase:
        return self._files.of(caller.user).db


def _is_queued(db: UserDatabase, seq: int) -> bool:
    with db.read() as tx:
        return index.QUEUE.holds(tx, seq)
