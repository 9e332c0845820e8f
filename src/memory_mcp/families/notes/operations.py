import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from memory_mcp.access import Tenants
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.changes import Changes
from memory_mcp.embedding import Embedders, EmbeddingWorker, QueryVectors
from memory_mcp.engines.sqlite import Database, Read
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.errors import Invalid, NotFound, Unavailable
from memory_mcp.families.family import LastWrite, within_budget
from memory_mcp.families.notes import markdown, note_search, transactions
from memory_mcp.families.notes.embedding_queue import WaitingNotes
from memory_mcp.families.notes.model import (
    Author,
    CreatedCursor,
    Deleted,
    EmbedStats,
    Filter,
    ImportedNote,
    Linked,
    Namespaces,
    Neighbourhood,
    NewNote,
    Note,
    NoteHit,
    NoteHits,
    NoteQuery,
    NoteSummary,
    Recent,
    Revision,
    Stats,
    Tag,
    TagCounts,
    Totals,
    Unlinked,
    UpdatedCursor,
    folded,
    tag_key,
)
from memory_mcp.families.notes.replica import Replica, ReplicaChanges
from memory_mcp.families.notes.result_limits import cut, cut_links, cut_neighbours, size
from memory_mcp.families.notes.storage import counts, links, lists, notes, queue, sync, vectors, words
from memory_mcp.families.notes.storage.notes import Stored
from memory_mcp.families.notes.vector_search import Meaning
from memory_mcp.search import snippets

VECTORS = "vectors"  # the topic of pages that show how many notes have theirs
MAX_LINKS = 500  # shown of one note, in each direction
MAX_NODES = 500  # of a neighbourhood, shown at once
MAX_COUNTED_NODES = 10_000  # of one that has more: the nearest, which can be paged through
MAX_DUPLICATES_SHOWN = 10  # duplicates that a new note is told of
MAX_TAGS_LISTED = 1000  # listed at once
TOUCH_SECONDS = 0.2  # that reading a note waits to be noted
RECENT_URI = "memory://recent"


def note_uri(id_: str) -> str:
    return f"memory://note/{quote(id_, safe='')}"


def namespace_uri(namespace: str) -> str:
    return f"memory://namespace/{quote(namespace, safe='')}"


def tag_uri(tag: str) -> str:
    """Tags are told apart without regard to case, and so are their addresses."""
    return f"memory://tag/{quote(tag_key(tag), safe='')}"


@dataclass(frozen=True)
class _UserNotes:
    """What this process has of one user's notes."""

    db: Database
    meaning: Meaning
    waiting: WaitingNotes


class Notes:
    """Everything this server can do with notes."""

    def __init__(self, tenants: Tenants, changes: Changes, embedders: Embedders) -> None:
        self._tenants = tenants
        self._changes = changes
        self._queries = QueryVectors(embedders)
        self._guard = threading.Lock()
        self._shelves: dict[str, _UserNotes] = {}
        self.worker = EmbeddingWorker(embedders, lambda: [shelf.waiting for shelf in self._there()])
        self.tidying = IndexMerge("notes_words", tenants.opened)
        changes.listen(self.tidying.now_and_then)

    def open_local(self) -> None:
        """Open the local user's file now, so that a damaged or newer one is reported at the start."""
        self._shelf(LOCAL_USER)

    # Writing

    def create(self, caller: Caller, author: Author, new: NewNote) -> Note:
        """Keep a new note, findable by its words at once and by its meaning soon.

        Never refuses a duplicate: `similar` names the notes that say nearly the same. Raises NotFound, and keeps
        nothing, if a note to supersede does not exist.
        """
        shelf = self._shelf(caller.user)
        [stored] = self._created(shelf, caller, author, [new])
        return replace(stored.note, similar=self._similar(shelf, stored) or None)

    def create_all(self, caller: Caller, author: Author, several: Sequence[NewNote]) -> list[Note]:
        """Keep several new notes, all of them or none, without a look at what is similar."""
        made = self._created(self._shelf(caller.user), caller, author, several)
        self.worker.wake()
        return [stored.note for stored in made]

    def _created(self, shelf: _UserNotes, caller: Caller, author: Author, several: Sequence[NewNote]) -> list[Stored]:
        for new in several:
            transactions.check_text(new.content)
        marks = [markdown.marks(new.content) for new in several]  # may take long, so before the transaction
        with shelf.db.write() as tx:
            made = [transactions.insert(tx, caller, author, *one) for one in zip(several, marks, strict=True)]
        changed = [stored.note for stored, _ in made]
        self._tell(caller.user, changed, also=[id_ for _, linked in made for id_ in linked], came_or_went=True)
        return [stored for stored, _ in made]

    def put(self, caller: Caller, author: Author, entries: Iterable[tuple[str, NewNote]]) -> None:
        """Keep many notes under ids of the caller's choice, all or none. They answer nothing and link to nothing, and
        nobody is told: this is for copies of what is kept elsewhere. An id that is there already, which another
        process may have put a moment ago, is left as it is."""
        shelf = self._shelf(caller.user)
        with shelf.db.write() as tx:
            for id_, new in entries:
                if notes.get(tx, id_):
                    continue
                namespace = transactions.namespace_for(caller, new.namespace)
                tags = list({tag_key(name): Tag(name, "user") for name in reversed(new.tags)}.values())[::-1]
                note = replace(transactions.new_note(caller, author, new, namespace, tags, tx.precise_stamp), id=id_)
                stored = notes.insert(tx, note, has_own_title=True, previous=None, session_id=None)
                notes.set_tags(tx, stored.seq, tags)
                words.index(tx, stored.seq)
                queue.add(tx, stored.seq)
        self.worker.wake()

    def drop(self, caller: Caller, ids: Iterable[str]) -> None:
        """Remove notes that were `put`, for good. Ids that nobody knows are nothing to do."""
        with self._db(caller).write() as tx:
            for id_ in ids:
                if stored := notes.get(tx, id_):
                    notes.delete(tx, stored.seq)

    def has_file(self, caller: Caller) -> bool:
        """Whether the user has a file of notes. None is made."""
        return self._tenants.exists(caller.user)

    def purge_words(self, caller: Caller) -> None:
        """Rewrite the index of words without those of deleted notes, and empty the WAL, which holds former versions.
        Takes longer the larger the index is."""
        db = self._db(caller)
        with db.write() as tx:
            words.optimize(tx)
        db.truncate_wal()

    def ids(self, caller: Caller, namespace: str) -> set[str]:
        with self._db(caller).read() as tx:
            return lists.ids_in(tx, namespace)

    def metadata(self, caller: Caller, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """By id, of those notes that are still there."""
        with self._db(caller).read() as tx:
            return lists.metadata_of(tx, ids)

    def namespace_names(self, caller: Caller) -> set[str]:
        """All of them, however many: for programs."""
        with self._db(caller).read() as tx:
            return lists.namespace_names(tx)

    def start_anew(self, caller: Caller) -> None:
        """Throw all of a user's notes away: for a file that is a cache and cannot be read any more."""
        with self._guard:
            self._shelves.pop(caller.user, None)
        self._tenants.start_anew(caller.user)

    def update(self, caller: Caller, author: Author, id_: str, revision: Revision) -> Note:
        """Change a note and keep its former version. What is not named stays; system tags always do."""
        if revision.content is not None:
            transactions.check_text(revision.content)
        if revision.namespace is not None:
            transactions.namespace_for(caller, revision.namespace)
        shelf = self._shelf(caller.user)
        while True:
            # Parsing may take long, so it happens before the transaction; whoever changes the note meanwhile wins.
            seen = self.read(caller, id_)
            marks = markdown.marks(seen.content if revision.content is None else revision.content)
            with shelf.db.write() as tx:
                former = transactions.existing(tx, id_, caller.confined_to)
                if former.note.version != seen.version and revision.content is None:
                    continue
                tags = transactions.revised_tags(
                    notes.tags_of(tx, former.seq), author, former.note, revision, marks.tags
                )
                stored = transactions.revised(tx, former, revision, tags)
                changed = stored != former or tags != notes.tags_of(tx, former.seq)
                linking = transactions.rewrite(tx, former, stored, tags, marks) if changed else []
                older = transactions.supersede(tx, former.seq, revision.supersedes, caller.confined_to)
                stored = transactions.existing(tx, id_, caller.confined_to)
            break
        self.worker.wake()
        if changed or older:
            moved = (stored.note.archived, stored.note.namespace) != (former.note.archived, former.note.namespace)
            self._tell(caller.user, [former.note, stored.note], also=[*linking, *older], came_or_went=moved)
        says_otherwise = stored.note.content != former.note.content
        return replace(stored.note, similar=(self._similar(shelf, stored) if says_otherwise else None) or None)

    def delete(self, caller: Caller, id_: str, *, soft: bool) -> Deleted:
        """Archive a note, so that it no longer surfaces, or delete it with its links and former versions for good."""
        with self._db(caller).write() as tx:
            former = transactions.existing(tx, id_, caller.confined_to)
            changed, linking = transactions.archive(tx, former) if soft else transactions.delete(tx, former)
        self.worker.wake()
        if changed:
            self._tell(caller.user, changed, also=linking, came_or_went=True)
        return Deleted(id_, True, soft)

    def link(self, caller: Caller, source_id: str, target_id: str, *, bidirectional: bool) -> Linked:
        """Link two notes of the caller's. Raises NotFound if either is not there."""
        with self._db(caller).write() as tx:
            source, target = transactions.both(tx, source_id, target_id, caller.confined_to)
            linked = links.link(tx, source.seq, target.seq, "link")
            if bidirectional:
                linked += links.link(tx, target.seq, source.seq, "link")
        self._tell_ends(caller, linked, source, target)
        return Linked(linked)

    def unlink(self, caller: Caller, source_id: str, target_id: str, *, bidirectional: bool) -> Unlinked:
        """Undo links that were made. A [[wikilink]] stays as long as the body says it."""
        with self._db(caller).write() as tx:
            source, target = transactions.both(tx, source_id, target_id, caller.confined_to)
            unlinked = links.unlink(tx, source.seq, target.seq)
            if bidirectional:
                unlinked += links.unlink(tx, target.seq, source.seq)
        self._tell_ends(caller, unlinked, source, target)
        return Unlinked(unlinked)

    # Reading

    def get(
        self,
        caller: Caller,
        id_: str,
        *,
        include_links: bool = False,
        links_offset: int = 0,
        version: int | None = None,
    ) -> Note:
        """One note, which counts as referenced by this. A former version is the note as it was then."""
        note = self.read(caller, id_, include_links=include_links, links_offset=links_offset, version=version)
        try:
            with self._db(caller).write(timeout_s=TOUCH_SECONDS) as tx:
                note = replace(note, last_referenced_at=notes.touch(tx, id_))
                namespace = notes.namespaces_of(tx, [id_]).get(id_)
        except Unavailable:  # somebody writes for long: no reason not to answer
            return note
        self._changes.tell(caller.user, [RECENT_URI], list_changed=False, namespace=namespace)
        return note

    def read(
        self,
        caller: Caller,
        id_: str,
        *,
        include_links: bool = False,
        links_offset: int = 0,
        version: int | None = None,
    ) -> Note:
        """The same, without a trace."""
        with self._db(caller).read() as tx:
            stored = transactions.existing(tx, id_, caller.confined_to)
            note = stored.note
            if version is not None and version != note.version:
                note = _version(tx, stored, version, caller.confined_to)
            linked = links.of(tx, stored.seq, caller.confined_to, links_offset, MAX_LINKS) if include_links else None
        return replace(note, links=cut_links(linked, links_offset) if linked else None)

    def search(self, caller: Caller, question: NoteQuery) -> NoteHits:
        """The best matches first, as many as a model can take; without a query whatever fits the filter, the newest
        first."""
        hits, has_more, notice = self._hits(caller, question)
        known = question.offset + len(hits)
        part = cut(hits, size, offset=question.offset, total=known + has_more, limit=len(hits))
        total = None if question.query else self._count(caller, question.filter)
        notices = [notice, part.notice]
        return NoteHits(part.shown, total, part.next_offset, " ".join(filter(None, notices)) or None)

    def hits(self, caller: Caller, question: NoteQuery) -> tuple[list[NoteHit], str | None]:
        """The same, all of them, and what there is to say about the search."""
        hits, _, notice = self._hits(caller, question)
        return hits, notice

    def _count(self, caller: Caller, chosen: Filter) -> int:
        with self._db(caller).read() as tx:
            return lists.count(tx, _seen_by(caller, chosen))

    def _hits(self, caller: Caller, question: NoteQuery) -> tuple[list[NoteHit], bool, str | None]:
        if not question.query and question.filter.is_empty:
            raise Invalid("Give words to look for, or a filter. memory_recent lists the latest notes.", field="query")
        shelf = self._shelf(caller.user)
        question = replace(question, filter=_seen_by(caller, question.filter))
        vector, notice = note_search.question_vector(shelf.db, self._queries, question)
        search = note_search.Search(question, shelf.meaning, vector)
        with shelf.db.read() as tx:
            found, has_more = search.found(tx)
        return [search.hit(stored, ranked) for stored, ranked in found], has_more, notice

    def recent(self, caller: Caller, chosen: Filter, limit: int, offset: int = 0) -> Recent:
        seen = _seen_by(caller, chosen)
        with self._db(caller).read() as tx:
            return _listed(lists.recent(tx, seen, offset, limit), offset, lists.count(tx, seen), limit)

    def archived(self, caller: Caller, limit: int, offset: int = 0) -> Recent:
        """Notes that were deleted softly."""
        within = caller.confined_to
        with self._db(caller).read() as tx:
            found, total = lists.archived(tx, within, offset, limit), lists.count_archived(tx, within)
        return _listed(found, offset, total, limit)

    def page(
        self, caller: Caller, chosen: Filter, words: str, after: UpdatedCursor | None, limit: int, *, archived: bool
    ) -> tuple[list[NoteSummary], UpdatedCursor | None]:
        """Notes as a list for people, the one last written first, and where it goes on. `archived` are those that were
        deleted softly."""
        with self._db(caller).read() as tx:
            found, following = lists.page(tx, _seen_by(caller, chosen), words, after, limit, archived=archived)
        return [replace(note, snippet=snippets.beginning(note.snippet)) for note in found], following

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        found, _ = self.page(caller, Filter(), "", None, limit, archived=False)
        return [LastWrite(note_uri(note.id), note.title, note.updated_at) for note in found]

    def namespaces(self, caller: Caller, offset: int = 0) -> Namespaces:
        """The last changed first."""
        with self._db(caller).read() as tx:
            found = lists.namespaces(tx, caller.confined_to)
        part = cut(found[offset:], lambda one: 80 + len(one.namespace.encode()), offset=offset, total=len(found))
        return Namespaces(part.shown, len(found), part.next_offset, part.notice)

    def namespaces_after(self, caller: Caller, name: str, limit: int) -> list[tuple[str, int]]:
        """(namespace, notes) in the order of their names."""
        with self._db(caller).read() as tx:
            return lists.namespaces_after(tx, caller.confined_to, name, limit)

    def namespaces_starting(self, caller: Caller, prefix: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return lists.namespaces_starting(tx, caller.confined_to, prefix, limit)

    def tags(self, caller: Caller, namespace: str | None, min_count: int, offset: int = 0) -> TagCounts:
        seen = _seen_by(caller, Filter(namespace))
        with self._db(caller).read() as tx:
            found = lists.tag_counts(tx, seen, min_count, MAX_TAGS_LISTED, offset)
            is_all = not offset and len(found) < MAX_TAGS_LISTED
            total = len(found) if is_all else lists.count_tags(tx, seen, min_count)
        part = cut(found, lambda one: 40 + len(one.tag.encode()), offset=offset, total=total)
        return TagCounts(part.shown, total, part.next_offset, part.notice)

    def neighbours(self, caller: Caller, id_: str, depth: int, offset: int = 0) -> Neighbourhood:
        """Notes within some links, the nearest first, at most MAX_NODES at a time."""
        with self._db(caller).read() as tx:
            root = transactions.existing(tx, id_, caller.confined_to)
            within, most = caller.confined_to, min(offset + MAX_NODES, MAX_COUNTED_NODES)
            found = links.neighbours(tx, root.seq, within, depth, most)
            total = len(found.nodes)
            if found.truncated:
                total = links.count_neighbours(tx, root.seq, within, depth, MAX_COUNTED_NODES)
        return cut_neighbours(found, offset, total)

    def picture(self, caller: Caller, most: int) -> Neighbourhood:
        """The notes written last and how they hang together."""
        with self._db(caller).read() as tx:
            return links.newest(tx, caller.confined_to, most)

    def stats(self, caller: Caller, namespace: str | None) -> Stats:
        with self._db(caller).read() as tx:
            found = lists.stats(tx, _seen_by(caller, Filter(namespace)))
        names = sorted(found.by_namespace, key=lambda name: (-found.by_namespace[name], name))
        shown = list(within_budget(names, lambda name: 20 + len(name.encode())))
        missing = len(names) - len(shown)
        return replace(
            found,
            by_namespace={name: found.by_namespace[name] for name in shown},
            notice=f"{missing} more namespaces: memory_list_namespaces lists all of them." if missing else None,
        )

    def totals(self, caller: Caller) -> Totals:
        """How many there are, without counting them."""
        with self._db(caller).read() as tx:
            return counts.totals(tx, caller.confined_to)

    def imported(self, caller: Caller, format_: str) -> dict[str, ImportedNote]:
        """The notes that imports of a format have made, by the ids they had there."""
        with self._db(caller).read() as tx:
            return {note.origin.id: note for note in notes.imported(tx, format_)}

    def notes_after(self, caller: Caller, after: CreatedCursor, limit: int) -> list[tuple[str, str, str]]:
        """(created_at, id, title) of notes in the order they were created, after a cursor."""
        with self._db(caller).read() as tx:
            return lists.notes_after(tx, caller.confined_to, after, limit)

    def titles_like(self, caller: Caller, text: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return lists.titles_like(tx, caller.confined_to, folded(text), limit)

    def ids_like(self, caller: Caller, text: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return lists.ids_like(tx, caller.confined_to, folded(text), limit)

    def tags_starting(self, caller: Caller, prefix: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return lists.tags_starting(tx, caller.confined_to, tag_key(prefix), limit)

    # Moving in and out

    def everything(self, caller: Caller) -> Iterator[tuple[Note, list[Tag], bool]]:
        """Every note as it stands now, archived ones too, with its tags and whether its title is its own."""
        with self._db(caller).read() as tx:
            for stored in notes.everything(tx):
                yield stored.note, notes.tags_of(tx, stored.seq), stored.has_own_title

    def every_link(self, caller: Caller) -> Iterator[tuple[str, str, str, str]]:
        """(source id, target id, kind, when it was made) of every link somebody made."""
        with self._db(caller).read() as tx:
            yield from links.everything(tx)

    def has(self, caller: Caller, id_: str) -> bool:
        with self._db(caller).read() as tx:
            return notes.get(tx, id_, caller.confined_to) is not None

    def take_in(
        self, caller: Caller, note: Note, tags: Sequence[str], *, has_own_title: bool, dry_run: bool = False
    ) -> bool:
        """Keep a note that comes from elsewhere under its id, with its times and the number of its version; `tags` are
        the user's. False, and nothing is changed, if there is one of this id, or was one that others know to be deleted
        for good. A dry run says the same."""
        transactions.check_text(note.content)
        marks = markdown.marks(note.content)
        every = transactions.merged_tags(
            tags, transactions.system_tags(Author(note.source, note.client), note.namespace), marks.tags
        )
        every = transactions.with_state(every) if note.archived else every
        kept = replace(
            note,
            user_id=caller.user,
            title=note.title if has_own_title else markdown.first_line(note.content),
            tags=[tag.name for tag in every],
            metadata=transactions.checked_metadata(note.metadata),
        )
        if dry_run:
            with self._db(caller).read() as tx:
                return not _is_or_was_here(tx, note.id)
        with self._db(caller).write() as tx:
            if _is_or_was_here(tx, note.id):
                return False
            stored = notes.insert(tx, kept, has_own_title=has_own_title, previous=None, session_id=None)
            if kept.archived or kept.version != 1:
                notes.update(tx, stored)
            notes.set_referenced(tx, stored.seq, kept.last_referenced_at)
            notes.set_tags(tx, stored.seq, every)
            links.set_wikilinks(tx, stored.seq, marks.links)
            linking = notes.ids_of(tx, links.resolve_wikilinks(tx, stored.seq))
            words.index(tx, stored.seq)
            if not kept.archived:
                queue.add(tx, stored.seq)
        self._tell(caller.user, [kept], also=linking, came_or_went=True)
        return True

    def take_in_link(self, caller: Caller, source_id: str, target_id: str, kind: str) -> bool:
        """Link two notes as they were elsewhere. False if they are so already. Raises NotFound if either is missing."""
        with self._db(caller).write() as tx:
            source, target = transactions.both(tx, source_id, target_id, caller.confined_to)
            linked = links.link(tx, source.seq, target.seq, kind)
            if kind == "supersedes":
                links.refresh_superseded(tx, target.seq)
        self._tell_ends(caller, linked, source, target)
        return bool(linked)

    # Other nodes

    def replica(self, user: str) -> Replica:
        """A user's notes as other nodes see them."""
        return Replica(user, self._shelf(user).db, partial(self._arrived, user))

    def _arrived(self, user: str, changed: ReplicaChanges) -> None:
        if changed.notes or changed.linked:
            self.worker.wake()
            self._tell(user, changed.notes, also=changed.linked, came_or_went=True)

    # Vectors

    def embed_stats(self, caller: Caller) -> EmbedStats:
        """How many notes have vectors, and who makes them or would make the first; `enabled` if it can now."""
        with self._db(caller).read() as tx:
            space = vectors.space(tx)
            waiting, total, embedded = queue.size(tx), counts.kept(tx), vectors.embedded(tx)
        backend = self._queries.backend(space)
        return EmbedStats(
            queue_size=waiting,
            total=total,
            total_with_embedding=embedded,
            backend_name=backend.name,
            backend_dim=backend.dimensions,
            enabled=backend.is_ready,
        )

    def waiting_for_vectors(self) -> int:
        """How many notes wait, of all users whose notes are open here."""
        waiting = 0
        for shelf in self._there():
            with suppress(Unavailable), shelf.db.read() as tx:
                waiting += queue.size(tx)
        return waiting

    def reindex(self, caller: Caller) -> int:
        """Embed every note again, by whichever embedder is chosen then. Returns how many wait now.

        Notes are found by the vectors they have until those are replaced, or until another model takes over.
        """
        with self._db(caller).write() as tx:
            vectors.renew(tx)
            waiting = queue.size(tx)
        self.worker.wake()
        self._changes.tell_pages(caller.user, VECTORS)
        return waiting

    def _similar(self, shelf: _UserNotes, stored: Stored) -> list[str]:
        """The other notes of the namespace that say the same, or nearly: as far as their vectors are there in time.

        The note is kept already, so whatever goes wrong here must not look as if it were not.
        """
        self.worker.wake()
        with suppress(Unavailable):
            self.worker.wait_for(lambda: not _is_queued(shelf.db, stored.seq))
            with shelf.db.read() as tx:
                equal = notes.equal_texts(tx, stored.seq, MAX_DUPLICATES_SHOWN)
                near = shelf.meaning.duplicates(tx, stored.seq)
                here = set(lists.fitting(tx, Filter(namespace=stored.note.namespace), among=near))
                found = notes.by_seq(tx, [seq for seq in near if seq in here][:MAX_DUPLICATES_SHOWN])
            return list(dict.fromkeys([*equal, *(other.note.id for other in found)]))[:MAX_DUPLICATES_SHOWN]
        return []

    def _tell(self, user: str, changed: Sequence[Note], *, also: Iterable[str], came_or_went: bool) -> None:
        """Report notes that changed, and those (`also`, by id) whose links did: each in its namespace."""
        uris: dict[str, list[str]] = {}
        for note in changed:
            own = [RECENT_URI, note_uri(note.id), namespace_uri(note.namespace), *map(tag_uri, note.tags)]
            uris.setdefault(note.namespace, []).extend(own)
        elsewhere = [RECENT_URI]  # links from other namespaces, which no caller confined to those can see
        for id_, namespace in self._namespaces_of(user, also).items():
            uris.get(namespace, elsewhere).append(note_uri(id_))
        for namespace, own in uris.items():
            self._changes.tell(user, own, list_changed=came_or_went, namespace=namespace)
        if not uris or len(elsewhere) > 1:
            self._changes.tell(user, elsewhere, list_changed=came_or_went)

    def _namespaces_of(self, user: str, ids: Iterable[str]) -> dict[str, str]:
        wanted = list(ids)
        if not wanted:
            return {}
        with self._shelf(user).db.read() as tx:
            return notes.namespaces_of(tx, wanted)

    def _tell_ends(self, caller: Caller, changed: int, *ends: Stored) -> None:
        namespaces = {end.note.namespace for end in ends}
        shared = namespaces.pop() if len(namespaces) == 1 else None
        if changed:
            uris = [note_uri(end.note.id) for end in ends]
            self._changes.tell(caller.user, uris, list_changed=False, namespace=shared)

    def _there(self) -> list[_UserNotes]:
        """Those whose file is still there: looking at one of a user who was deleted would make it anew."""
        return [shelf for user, shelf in list(self._shelves.items()) if self._tenants.exists(user)]

    def _db(self, caller: Caller) -> Database:
        return self._shelf(caller.user).db

    def _shelf(self, user: str) -> _UserNotes:
        db = self._tenants.database(user)
        with self._guard:
            if user not in self._shelves:
                self._shelves[user] = _UserNotes(
                    db, Meaning(), WaitingNotes(db, partial(self._changes.tell_pages, user, VECTORS))
                )
                self.worker.wake()
            return self._shelves[user]


def client_tag(name: str) -> str | None:
    """'Claude Desktop' and 'claudeDesktop' as a tag: claude-desktop."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    return re.sub(r"[\W_]+", "-", spaced).casefold()[:64].strip("-") or None


def _seen_by(caller: Caller, chosen: Filter) -> Filter:
    """Of what fits a filter, what exists for the caller."""
    return replace(chosen, within=caller.confined_to)


def _version(tx: Read, stored: Stored, version: int, within: str | None) -> Note:
    former = notes.former(tx, stored, version, within)
    if former is None:
        raise NotFound(f"This note has no version {version} to show. Its latest is {stored.note.version}.")
    return former


def _is_or_was_here(tx: Read, id_: str) -> bool:
    return notes.get(tx, id_) is not None or bool(sync.tombstones(tx, [id_]))


def _is_queued(db: Database, seq: int) -> bool:
    with db.read() as tx:
        return queue.holds(tx, seq)


def _listed(slim: list[NoteSummary], offset: int, total: int, limit: int) -> Recent:
    found = [replace(note, snippet=snippets.beginning(note.snippet)) for note in slim]
    part = cut(found, size, offset=offset, total=total, limit=limit)
    return Recent(part.shown, total, part.next_offset, part.notice)
