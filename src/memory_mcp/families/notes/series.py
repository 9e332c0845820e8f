"""Series: notes that one author wrote in order, such as the messages of a conversation. Each is stored once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import UserDatabase, Write
from memory_mcp.families.notes import markdown, transactions
from memory_mcp.families.notes.change_events import NoteEvents
from memory_mcp.families.notes.model import ARCHIVED, Author, Filter, NewNote, Note, Revision, Source
from memory_mcp.families.notes.storage import links, lists, notes
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.notes.storage.sync import fields
from memory_mcp.services.search_index import IndexFiles

MAX_NOTES_PER_TRANSACTION = 200  # of those that are archived, restored or deleted


@dataclass(frozen=True)
class NearNote:
    """A note near another one of its series, or that note itself."""

    note: Note
    seq: int  # later notes of a series have higher ones
    distance: int  # negative for a note before the other one


class NoteSeries:
    def __init__(self, files: IndexFiles, events: NoteEvents) -> None:
        self._files = files
        self._events = events

    def append(self, caller: Caller, author: Author, several: Sequence[NewNote], after: str | None) -> list[Note]:
        """Store the notes that are missing, in one transaction, each linked to the one before it; `after` is the id of
        the note before the first. Every note has an id: one that exists or was deleted for good is skipped.

        Their texts are stored as they are: #tags and [[links]] in them mean nothing.
        """
        added: list[Note] = []
        with self._db(caller).write() as tx:
            previous = notes.get(tx, after) if after else None
            for new in several:
                stored = notes.get(tx, str(new.id))
                if stored is None and not fields.tombstones(tx, [str(new.id)]):
                    stored = _insert(tx, caller, author, new, previous)
                    added.append(stored.note)
                previous = stored or previous
        if added:
            self._files.worker.wake()
            self._events.publish(caller.user, added, linked=(), list_changed=True)
        return added

    def around(self, caller: Caller, ids: Sequence[str], reach: int) -> dict[str, list[NearNote]]:
        """By id, the note itself and the live notes at most `reach` notes before or after it."""
        with self._db(caller).read() as tx:
            near = links.near_in_series(tx, ids, reach)
            live = lists.matching(tx, Filter(within=caller.confined_to), {seq for _, seq, _ in near})
            found = {one.seq: one.note for one in notes.by_seq(tx, live, caller.confined_to)}
        around: dict[str, list[NearNote]] = {}
        for id_, seq, distance in near:
            if seq in found:
                around.setdefault(id_, []).append(NearNote(found[seq], seq, distance))
        return around

    def page(self, caller: Caller, chosen: Filter, after: int, limit: int) -> tuple[list[Note], int | None]:
        """Live notes in the order they were stored, and where the next page starts; None on the last."""
        with self._db(caller).read() as tx:
            seqs = lists.in_order(tx, replace(chosen, within=caller.confined_to), after, limit + 1)
            found = notes.by_seq(tx, seqs[:limit], caller.confined_to)
        return [stored.note for stored in found], seqs[limit - 1] if len(seqs) > limit else None

    def last(self, caller: Caller, chosen: Filter, limit: int) -> list[Note]:
        """The last live notes that match a filter, in their order."""
        with self._db(caller).read() as tx:
            seqs = lists.newest(tx, replace(chosen, within=caller.confined_to), 0, limit)
            return [stored.note for stored in notes.by_seq(tx, seqs[::-1], caller.confined_to)]

    def importances(self, caller: Caller, chosen: Filter) -> dict[str, float]:
        """Of the live notes that match a filter, by id: for `restore`."""
        with self._db(caller).read() as tx:
            return lists.importances(tx, chosen)

    def archive(self, caller: Caller, chosen: Filter) -> None:
        """Archive all notes that match a filter, which must name a source."""
        while True:
            with self._db(caller).write() as tx:
                found = notes.by_seq(tx, lists.in_order(tx, chosen, 0, MAX_NOTES_PER_TRANSACTION))
                changed = [note for stored in found for note in transactions.archive(tx, caller, stored)[0]]
            if not found:
                return
            self._publish(caller, changed)

    def restore(self, caller: Caller, author: Author, importances: Mapping[str, float]) -> None:
        """Bring archived notes back, with their importance."""
        wanted = list(importances)
        for start in range(0, len(wanted), MAX_NOTES_PER_TRANSACTION):
            with self._db(caller).write() as tx:
                some = [notes.get(tx, id_) for id_ in wanted[start : start + MAX_NOTES_PER_TRANSACTION]]
                changed = [
                    _restore(tx, caller, author, stored, importances[stored.note.id])
                    for stored in some
                    if stored and stored.note.archived
                ]
            self._publish(caller, changed)

    def delete(self, caller: Caller, chosen: Filter) -> None:
        """Delete all notes that match a filter, which must name a source, archived or not, for good."""
        while True:
            with self._db(caller).write() as tx:
                seqs = lists.in_order(tx, chosen, 0, MAX_NOTES_PER_TRANSACTION, include_archived=True)
                deleted = _delete(tx, caller, seqs)
            if not deleted:
                return
            self._publish(caller, deleted)

    def delete_expired(self, caller: Caller, source: Source) -> None:
        """Delete up to MAX_NOTES_PER_TRANSACTION notes of a source that have expired, for good."""
        with self._db(caller).write() as tx:
            deleted = _delete(tx, caller, lists.expired(tx, source, MAX_NOTES_PER_TRANSACTION))
        self._publish(caller, deleted)

    def _publish(self, caller: Caller, changed: Sequence[Note]) -> None:
        if changed:
            self._files.worker.wake()
            self._events.publish(caller.user, changed, linked=(), list_changed=True)

    def _db(self, caller: Caller) -> UserDatabase:
        return self._files.of(caller.user).db


def _insert(tx: Write, caller: Caller, author: Author, new: NewNote, previous: StoredNote | None) -> StoredNote:
    transactions.check_text(new.content)
    before = previous.seq if previous and not previous.note.archived else None
    stored, _ = transactions.insert_after(tx, caller, author, new, markdown.Marks(), before)
    if before is not None:
        links.link(tx, before, stored.seq, "link")
    return stored


def _restore(tx: Write, caller: Caller, author: Author, former: StoredNote, importance: float) -> Note:
    revision = Revision(remove_tags=(ARCHIVED,), importance=importance)
    return transactions.update(tx, caller, author, former, revision, markdown.Marks()).stored.note


def _delete(tx: Write, caller: Caller, seqs: Sequence[int]) -> list[Note]:
    found = notes.by_seq(tx, seqs)
    for stored in found:
        transactions.delete(tx, caller, stored)
    return [stored.note for stored in found]
