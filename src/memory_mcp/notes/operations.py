import hashlib
import json
import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import quote
from uuid import uuid4

from memory_mcp.access import Tenants
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.changes import Change, Changes
from memory_mcp.clock import precise_stamp
from memory_mcp.embedding import Embedders, Queries, Worker
from memory_mcp.errors import Conflict, Invalid, NotFound, Unavailable
from memory_mcp.families import within_budget
from memory_mcp.notes import markdown, searching, storage
from memory_mcp.notes.meaning import Meaning
from memory_mcp.notes.model import (
    ARCHIVED,
    SYSTEM_TAGS,
    Author,
    Changed,
    Deleted,
    EmbedStats,
    Filter,
    Found,
    Hit,
    Linked,
    Namespaces,
    Neighbours,
    NewNote,
    Note,
    Question,
    Recent,
    Slim,
    Stats,
    TagCounts,
    Unlinked,
)
from memory_mcp.notes.storage import Stored, Tag
from memory_mcp.notes.waiting import WaitingNotes
from memory_mcp.search import snippets
from memory_mcp.sqlite import Database, Read, Write

CONTEXT_MINUTES = 30  # a note written longer ago is no longer what the next one answers
MOST_LINKS = 500  # shown of one note, in each direction
MOST_NODES = 500
MOST_SIMILAR = 10  # duplicates that a new note is told of
MOST_TAGS = 1000  # listed at once
TIDY_EVERY = 5.0  # seconds at least between two tidyings
RECENT_URI = "memory://recent"


def note_uri(id_: str) -> str:
    return f"memory://note/{quote(id_, safe='')}"


def namespace_uri(namespace: str) -> str:
    return f"memory://namespace/{quote(namespace, safe='')}"


def tag_uri(tag: str) -> str:
    """Tags are told apart without regard to case, and so are their addresses."""
    return f"memory://tag/{quote(storage.tag_key(tag), safe='')}"


@dataclass(frozen=True)
class _Shelf:
    """What this process has of one user's notes."""

    db: Database
    meaning: Meaning
    waiting: WaitingNotes


class Notes:
    """Everything this server can do with notes."""

    def __init__(self, tenants: Tenants, changes: Changes, embedders: Embedders) -> None:
        self._tenants = tenants
        self._changes = changes
        self._queries = Queries(embedders)
        self._guard = threading.Lock()
        self._shelves: dict[str, _Shelf] = {}
        self._tidied_at = 0.0
        self.worker = Worker(embedders, lambda: [shelf.waiting for shelf in list(self._shelves.values())])
        changes.listen(self._tidy_now_and_then)

    def open_local(self) -> None:
        """Open the local user's file now, so that a damaged or newer one is refused at the start."""
        self._shelf(LOCAL_USER)

    def tidy(self) -> None:
        """Make searches of the open files fast again after many writes. Not needed, and nobody should wait for it."""
        for db in self._tenants.opened():
            with db.read() as tx:
                if storage.is_tidy(tx):
                    continue
            with db.write() as writing:
                storage.tidy(writing)

    def _tidy_now_and_then(self, _: Change) -> None:
        """After a change has been told, in the thread that told it: nobody waits for it there."""
        if time.monotonic() - self._tidied_at > TIDY_EVERY:
            self._tidied_at = time.monotonic()
            with suppress(Unavailable):
                self.tidy()

    # Writing

    def create(self, caller: Caller, author: Author, new: NewNote) -> Note:
        """Keep a new note, findable by its words at once and by its meaning soon.

        Never refuses a duplicate: `similar` names the notes that say nearly the same. Raises NotFound, and keeps
        nothing, if a note to supersede does not exist.
        """
        if not new.content.strip():
            raise Invalid("A note needs some text. Give it as `content`.", field="content")
        shelf = self._shelf(caller.user)
        marks = markdown.marks(new.content)
        namespace = new.namespace or caller.namespace
        tags = merged_tags(new.tags, _system_tags(author, namespace), marks.tags)
        with shelf.db.write() as tx:
            since = precise_stamp(tx.now - timedelta(minutes=CONTEXT_MINUTES))
            previous = storage.latest_of_session(tx, author.session_id, namespace, since)
            note = _new_note(caller, author, new, namespace, tags, precise_stamp(tx.now))
            seq = storage.insert(tx, note, _keys(note, new.title is not None, previous, author.session_id))
            storage.set_tags(tx, seq, tags)
            storage.set_wikilinks(tx, seq, namespace, _titles(marks))
            storage.resolve(tx, seq)
            self._supersede(tx, seq, new.supersedes)
            storage.index(tx, seq)
            storage.enqueue(tx, seq)
        self._tell(caller, [note], came_or_went=True)
        return replace(note, similar=self._similar(shelf, seq, note) or None)

    def update(self, caller: Caller, author: Author, id_: str, changed: Changed) -> Note:
        """Change a note and keep its former version. What is not named stays; system tags always do."""
        shelf = self._shelf(caller.user)
        marks = None if changed.content is None else markdown.marks(changed.content)
        with shelf.db.write() as tx:
            former = _existing(tx, id_)
            content = former.note.content if changed.content is None else changed.content
            marks = marks or markdown.marks(content)
            former_tags = storage.tags_of(tx, former.seq)
            tags = _changed_tags(former_tags, author, former.note, changed, marks.tags)
            note, has_own_title = _changed_note(tx, former, changed, content, tags)
            if note != former.note or tags != former_tags or has_own_title != former.has_own_title:
                note = self._rewrite(tx, former, note, has_own_title, tags, marks)
            self._supersede(tx, former.seq, changed.supersedes)
        self._tell(caller, [former.note, note], came_or_went=former.note.archived != note.archived)
        rewritten = note.content != former.note.content
        return replace(note, similar=(self._similar(shelf, former.seq, note) if rewritten else None) or None)

    def _rewrite(
        self, tx: Write, former: Stored, note: Note, has_own_title: bool, tags: list[Tag], marks: markdown.Marks
    ) -> Note:
        """Put a changed note in the place of the former one, with everything that depends on it."""
        seq = former.seq
        storage.keep_version(tx, seq)
        moved = note.namespace != former.note.namespace or note.archived != former.note.archived
        following = storage.close_gap(tx, seq) if moved else storage.followers(tx, seq)
        previous = None if moved else former.previous
        note = replace(note, updated_at=precise_stamp(tx.now), version=former.note.version + 1)
        storage.update(tx, seq, note, _keys(note, has_own_title, previous))
        storage.set_tags(tx, seq, tags)
        storage.set_wikilinks(tx, seq, note.namespace, _titles(marks))
        storage.resolve(tx, seq)
        storage.index(tx, seq)
        if note.archived != former.note.archived:
            for older in storage.replaced(tx, seq):
                storage.refresh_superseded(tx, older)
        says_otherwise = moved or (note.title, note.content) != (former.note.title, former.note.content)
        if note.archived:
            storage.forget_vectors(tx, seq)
        elif says_otherwise:
            storage.enqueue(tx, seq)
        for follower in following if says_otherwise else ():
            storage.index(tx, follower)
            storage.enqueue(tx, follower)
        return note

    def delete(self, caller: Caller, id_: str, *, soft: bool) -> Deleted:
        """Archive a note, so that it no longer surfaces, or delete it with its links and former versions for good."""
        if soft:
            self._archive(caller, id_)
        else:
            self._delete(caller, id_)
        return Deleted(id_, True, soft)

    def _archive(self, caller: Caller, id_: str) -> None:
        with self._db(caller).write() as tx:
            former = _existing(tx, id_)
            if former.note.archived:
                return
            tags = _each_once([*storage.tags_of(tx, former.seq), Tag(ARCHIVED, "state")])
            note = replace(former.note, archived=True, importance=0.0, tags=[tag.name for tag in tags])
            marks = markdown.marks(note.content)
            self._rewrite(tx, former, note, former.has_own_title, tags, marks)
        self._tell(caller, [former.note, note], came_or_went=True)

    def _delete(self, caller: Caller, id_: str) -> None:
        with self._db(caller).write() as tx:
            stored = _existing(tx, id_)
            older = storage.replaced(tx, stored.seq)
            following = storage.close_gap(tx, stored.seq)
            storage.delete(tx, stored.seq)
            storage.resolve_title(tx, title_key(stored.note.title), stored.note.namespace)
            for seq in older:
                storage.refresh_superseded(tx, seq)
            for seq in following:
                storage.index(tx, seq)
                storage.enqueue(tx, seq)
        self._tell(caller, [stored.note], came_or_went=True)

    def link(self, caller: Caller, source_id: str, target_id: str, *, bidirectional: bool) -> Linked:
        """Link two notes of the caller's. Raises NotFound if either is not there."""
        with self._db(caller).write() as tx:
            source, target = _both(tx, source_id, target_id)
            linked = storage.link(tx, source.seq, target.seq, "link")
            if bidirectional:
                linked += storage.link(tx, target.seq, source.seq, "link")
        self._tell_links(caller, linked, source, target)
        return Linked(linked)

    def unlink(self, caller: Caller, source_id: str, target_id: str, *, bidirectional: bool) -> Unlinked:
        """Undo links that were made. A [[wikilink]] stays as long as the body says it."""
        with self._db(caller).write() as tx:
            source, target = _both(tx, source_id, target_id)
            unlinked = storage.unlink(tx, source.seq, target.seq)
            if bidirectional:
                unlinked += storage.unlink(tx, target.seq, source.seq)
        self._tell_links(caller, unlinked, source, target)
        return Unlinked(unlinked)

    # Reading

    def get(self, caller: Caller, id_: str, *, include_links: bool = False, version: int | None = None) -> Note:
        """One note, which counts as referenced by this. A former version is the note as it was then."""
        note = self.read(caller, id_, include_links=include_links, version=version)
        with suppress(Unavailable), self._db(caller).write() as tx:  # a busy disk is no reason not to answer
            note = replace(note, last_referenced_at=storage.touch(tx, _existing(tx, id_).seq))
            self._changes.tell(caller.user, [RECENT_URI], list_changed=False)
        return note

    def read(self, caller: Caller, id_: str, *, include_links: bool = False, version: int | None = None) -> Note:
        """The same, without a trace."""
        with self._db(caller).read() as tx:
            stored = _existing(tx, id_)
            note = stored.note if version in (None, stored.note.version) else _version(tx, stored, version or 0)
            links = storage.links_of(tx, stored.seq, MOST_LINKS) if include_links else None
        return replace(note, links=links)

    def search(self, caller: Caller, question: Question) -> Found:
        """The best matches first; without a query whatever fits the filter, the newest first."""
        if not question.query and question.filter.is_empty:
            raise Invalid("Give words to look for, or a filter. memory_recent lists the latest notes.", field="query")
        shelf = self._shelf(caller.user)
        vector, notice = searching.question_vector(shelf.db, self._queries, question)
        with shelf.db.read() as tx:
            hits = searching.Search(question, shelf.meaning, vector).hits(tx)
        shown = within_budget(hits, _size)
        return Found(list(shown), notice or _left_out(hits, shown))

    def recent(self, caller: Caller, chosen: Filter, limit: int) -> Recent:
        with self._db(caller).read() as tx:
            notes = [_with_snippet(note) for note in storage.recent(tx, chosen, limit)]
        shown = within_budget(notes, _size)
        return Recent(list(shown), _left_out(notes, shown))

    def archived(self, caller: Caller, limit: int) -> Recent:
        """Notes that were deleted softly."""
        with self._db(caller).read() as tx:
            return Recent([_with_snippet(note) for note in storage.archived(tx, limit)])

    def namespaces(self, caller: Caller) -> Namespaces:
        with self._db(caller).read() as tx:
            return Namespaces(storage.namespaces(tx))

    def tags(self, caller: Caller, namespace: str | None, min_count: int) -> TagCounts:
        with self._db(caller).read() as tx:
            found = storage.tag_counts(tx, namespace, min_count, MOST_TAGS + 1)
        notice = f"Only the first {MOST_TAGS} are shown. Ask for a namespace or a higher min_count."
        return TagCounts(found[:MOST_TAGS], notice if len(found) > MOST_TAGS else None)

    def neighbours(self, caller: Caller, id_: str, depth: int) -> Neighbours:
        with self._db(caller).read() as tx:
            return storage.neighbours(tx, _existing(tx, id_).seq, depth, MOST_NODES)

    def stats(self, caller: Caller, namespace: str | None) -> Stats:
        with self._db(caller).read() as tx:
            return storage.stats(tx, namespace)

    def notes_after(self, caller: Caller, seq: int, limit: int) -> list[tuple[int, str, str]]:
        """(position, id, title) of notes in the order they were written, after a position."""
        with self._db(caller).read() as tx:
            return storage.notes_after(tx, seq, limit)

    def titles_like(self, caller: Caller, text: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return storage.titles_like(tx, title_key(text), limit)

    def ids_like(self, caller: Caller, text: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return storage.ids_like(tx, text.casefold(), limit)

    # Vectors

    def embed_stats(self, caller: Caller) -> EmbedStats:
        with self._db(caller).read() as tx:
            found = storage.space(tx)
            kind, dimensions = (found[0].rsplit("/", 1)[0], int(found[0].rsplit("/", 1)[1])) if found else (None, None)
            return EmbedStats(
                queue_size=storage.queue_size(tx),
                total=storage.count(tx),
                total_with_embedding=storage.embedded(tx),
                backend_name=kind,
                backend_dim=dimensions,
                enabled=not self._queries.are_off,
            )

    def reindex(self, caller: Caller) -> int:
        """Embed every note anew, by whichever embedder is chosen then. Returns how many wait now."""
        with self._db(caller).write() as tx:
            storage.forget_space(tx)
            waiting = storage.queue_size(tx)
        self.worker.wake()
        return waiting

    def _similar(self, shelf: _Shelf, seq: int, note: Note) -> list[str]:
        """The other notes of the namespace that say the same, or nearly: as far as their vectors are there in time."""
        self.worker.wake()
        self.worker.wait_for(lambda: not _is_queued(shelf.db, seq))
        with shelf.db.read() as tx:
            equal = storage.equal_texts(tx, seq)
            near = shelf.meaning.duplicates(tx, seq)
            here = set(storage.fitting(tx, Filter(namespace=note.namespace), among=near))
            shown = [other for other in near if other in here][:MOST_SIMILAR]
            found = storage.by_seq(tx, shown)
        return list(dict.fromkeys([*equal, *(found[other].note.id for other in shown)]))

    def _supersede(self, tx: Write, seq: int, ids: Iterable[str]) -> None:
        for id_ in ids:
            older = _existing(tx, id_)
            if storage.replaces(tx, older.seq, seq):
                raise Conflict("A note cannot supersede itself, nor one that supersedes it.", field="supersedes")
            storage.supersede(tx, seq, older.seq)

    def _tell(self, caller: Caller, notes: Sequence[Note], *, came_or_went: bool) -> None:
        uris = [RECENT_URI]
        for note in notes:
            uris += [note_uri(note.id), namespace_uri(note.namespace), *map(tag_uri, note.tags)]
        self._changes.tell(caller.user, uris, list_changed=came_or_went)

    def _tell_links(self, caller: Caller, changed: int, *ends: Stored) -> None:
        if changed:
            self._changes.tell(caller.user, [note_uri(end.note.id) for end in ends], list_changed=False)

    def _db(self, caller: Caller) -> Database:
        return self._shelf(caller.user).db

    def _shelf(self, user: str) -> _Shelf:
        db = self._tenants.database(user)
        with self._guard:
            if user not in self._shelves:
                self._shelves[user] = _Shelf(db, Meaning(db), WaitingNotes(db))
                self.worker.wake()
            return self._shelves[user]


def merged_tags(user: Iterable[str], system: Iterable[str], inline: Iterable[str]) -> list[Tag]:
    """The user's tags, the system's, those in the body: in this order, each once whatever its case."""
    named = (("user", user), ("system", system), ("inline", inline))
    return _each_once(Tag(_tag(name), origin) for origin, names in named for name in names)


def _each_once(tags: Iterable[Tag]) -> list[Tag]:
    kept: dict[str, Tag] = {}
    for tag in tags:
        kept.setdefault(tag.key, tag)
    return list(kept.values())


def _tag(name: str) -> str:
    tag = name.strip().removeprefix("#").strip()
    if not tag or "," in tag or any(ord(character) < 32 for character in tag):
        raise Invalid(f"{name!r} is no tag: it must not be empty nor hold a comma. Give two tags as two.", field="tags")
    return tag


def _system_tags(author: Author, namespace: str) -> list[str]:
    if author.source != "mcp":
        return [_namespace_tag(namespace)]
    return [*SYSTEM_TAGS, *([author.client] if author.client else []), _namespace_tag(namespace)]


def _namespace_tag(namespace: str) -> str:
    return f"ns/{namespace}"


def _changed_tags(
    former: Sequence[Tag], author: Author, note: Note, changed: Changed, inline: Iterable[str]
) -> list[Tag]:
    """The user's tags as they were changed, then the system's as they stay, then those in the body."""
    removed = {storage.tag_key(_tag(name)) for name in changed.remove_tags}
    own = [tag.name for tag in former if tag.origin == "user"] if changed.tags is None else list(changed.tags)
    own = [name for name in [*own, *changed.add_tags] if storage.tag_key(_tag(name)) not in removed]
    namespace = changed.namespace or note.namespace
    system = [tag.name for tag in former if tag.origin == "system" and tag.name != _namespace_tag(note.namespace)]
    system = [*system, *_system_tags(author, namespace)]
    state = [tag for tag in former if tag.origin == "state" and tag.key not in removed]
    return _each_once([*merged_tags(own, system, inline), *state])


def _new_note(caller: Caller, author: Author, new: NewNote, namespace: str, tags: list[Tag], now: str) -> Note:
    return Note(
        id=str(uuid4()),
        user_id=caller.user,
        namespace=namespace,
        title=new.title or markdown.first_line(new.content),
        content=new.content,
        folder=new.folder,
        tags=[tag.name for tag in tags],
        importance=new.importance,
        metadata=dict(new.metadata),
        source=author.source,
        client=author.client,
        created_at=now,
        updated_at=now,
        last_referenced_at=None,
        archived=False,
        expires_at=new.expires_at,
        superseded_by=None,
        version=1,
    )


def _changed_note(tx: Read, former: Stored, changed: Changed, content: str, tags: list[Tag]) -> tuple[Note, bool]:
    """The note as it is to be, and whether it has a title of its own."""
    note = former.note
    if not content.strip():
        raise Invalid("A note needs some text. memory_delete removes it.", field="content")
    has_own_title = changed.title is not None or former.has_own_title
    title = (changed.title or note.title) if has_own_title else markdown.first_line(content)
    metadata = {**note.metadata, **changed.metadata_patch}
    archived = any(tag.origin == "state" for tag in tags)
    restored = storage.importance_before_archiving(tx, former.seq) if note.archived and not archived else None
    importance = changed.importance if changed.importance is not None else restored
    return replace(
        note,
        title=title,
        content=content,
        folder=note.folder if changed.folder is None else changed.folder,
        namespace=changed.namespace or note.namespace,
        importance=note.importance if importance is None else importance,
        metadata={key: value for key, value in metadata.items() if value is not None},
        expires_at=note.expires_at if changed.expires_at is None else changed.expires_at or None,
        archived=archived,
        tags=[tag.name for tag in tags],
    ), has_own_title


def _keys(note: Note, has_own_title: bool, previous: int | None, session_id: str | None = None) -> dict[str, object]:
    """What the file knows of a note beside its fields."""
    return {
        "has_own_title": has_own_title,
        "title_key": title_key(note.title),
        "content_key": _content_key(note.content),
        "previous": previous,
        "session_id": session_id,
    }


def title_key(title: str) -> str:
    """Titles are compared without regard to case and spacing."""
    return " ".join(title.casefold().split())


def _content_key(content: str) -> bytes:
    return hashlib.sha256(title_key(content).encode()).digest()[:16]


def _titles(marks: markdown.Marks) -> dict[str, str]:
    return {title_key(title): title for title in reversed(marks.links)}


def client_tag(name: str) -> str | None:
    """'Claude Desktop' and 'claudeDesktop' as a tag: claude-desktop."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    return re.sub(r"[^\w]+|_+", "-", spaced).strip("-").casefold()[:64] or None


def _existing(tx: Read, id_: str) -> Stored:
    stored = storage.get(tx, id_)
    if stored is None:
        raise NotFound("There is no note with this id. memory_search finds what there is.")
    return stored


def _both(tx: Read, source_id: str, target_id: str) -> tuple[Stored, Stored]:
    source, target = _existing(tx, source_id), _existing(tx, target_id)
    if source.seq == target.seq:
        raise Invalid("A note cannot be linked to itself. Give two ids.", field="target_id")
    return source, target


def _version(tx: Read, stored: Stored, version: int) -> Note:
    former = storage.former(tx, stored.seq, version)
    if former is None:
        raise NotFound(f"This note has the versions 1 to {stored.note.version}.")
    return replace(stored.note, **former)


def _is_queued(db: Database, seq: int) -> bool:
    with db.read() as tx:
        return storage.is_queued(tx, seq)


def _with_snippet(note: Slim) -> Slim:
    return replace(note, snippet=snippets.beginning(note.snippet))


def _size(item: Hit | Slim) -> int:
    """About how many bytes of JSON it makes."""
    return len(json.dumps([item.title, item.snippet, item.tags], ensure_ascii=False).encode()) + 300


def _left_out(items: Sequence[object], shown: Sequence[object]) -> str | None:
    if len(shown) == len(items):
        return None
    return f"{len(items) - len(shown)} more would be too long to show at once. Narrow the search."
