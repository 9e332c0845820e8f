"""Reading notes: single notes, searches, lists and counts."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, UserDatabase
from memory_mcp.errors import Invalid, NotFound, Unavailable, shorten
from memory_mcp.families.family import LastWrite, within_budget
from memory_mcp.families.notes import note_search, transactions
from memory_mcp.families.notes.addresses import namespace_uri, note_uri
from memory_mcp.families.notes.change_events import NoteEvents
from memory_mcp.families.notes.journal_items import NoteItems
from memory_mcp.families.notes.list_model import Facets, ListedPart, NotesPicture
from memory_mcp.families.notes.model import (
    CreatedCursor,
    EmbedStats,
    Filter,
    Namespaces,
    Neighbourhood,
    Note,
    NoteHit,
    NoteHits,
    NoteQuery,
    NoteSummary,
    Recent,
    Stats,
    TagCounts,
    Totals,
    UpdatedCursor,
    client_tag,
    folded,
    tag_key,
)
from memory_mcp.families.notes.result_limits import cut, cut_links, cut_neighbors, size
from memory_mcp.families.notes.storage import counts, facets, index, links, lists, notes
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.references import GroupSize
from memory_mcp.families.texts import searched
from memory_mcp.families.writes import origins, short_origins
from memory_mcp.services.search import snippets
from memory_mcp.services.search_index import IndexFile, IndexFiles
from memory_mcp.services.search_index.storage import vectors
from memory_mcp.text.nearness import did_you_mean, nearest

MAX_LINKS = 500  # shown of one note, in each direction
MAX_NODES = 500  # of a neighbourhood, on one page
MAX_COUNTED_NODES = 10_000  # of a neighbourhood, on all pages
MAX_TAGS_LISTED = 1000  # on one page
NOTHING_FITS = "Nothing fits this query. Try other words or fewer filters; memory_list_tags shows what there is."
NOTHING_MATCHES = "No note matches these filters. memory_list_tags shows what there is."
REFERENCE_TIMEOUT_S = 0.2  # for recording that a note was read


class NoteReader:
    def __init__(self, files: IndexFiles, events: NoteEvents) -> None:
        self._files = files
        self._events = events

    def get(
        self,
        caller: Caller,
        id_: str,
        *,
        include_links: bool = False,
        links_offset: int = 0,
        version: int | None = None,
    ) -> Note:
        """One note, or a former version of it. Records that it was referenced."""
        note = self.read(caller, id_, include_links=include_links, links_offset=links_offset, version=version)
        try:
            with self._db(caller).write(timeout_s=REFERENCE_TIMEOUT_S) as tx:
                namespace = notes.touch(tx, note.id)
                note = replace(note, last_referenced_at=tx.precise_stamp)
        except Unavailable:  # another process writes for long: answer anyway
            return note
        self._events.publish_reference(caller.user, namespace)
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
        """The same, without recording the reference."""
        with self._db(caller).read() as tx:
            stored = transactions.existing(tx, id_, caller.confined_to)
            note = stored.note
            if version is not None and version != note.version:
                note = _version(tx, stored, version, caller.confined_to)
            linked = (
                links.links_of(tx, stored.seq, caller.confined_to, links_offset, MAX_LINKS) if include_links else None
            )
            origin = origins(tx, NoteItems(), [note_uri(note.id)]).get(note_uri(note.id))
        shown = origin if origin and client_tag(origin) != note.client else None  # the note has its client
        return replace(note, links=cut_links(linked, links_offset) if linked else None, origin=shown)

    def search(self, caller: Caller, query: NoteQuery) -> NoteHits:
        """The best matches first, as many as fit one answer; without a query the notes that match the filter, newest
        first."""
        hits, has_more, notice = self._hits(caller, query)
        known = query.offset + len(hits)
        part = cut(hits, size, offset=query.offset, total=known + has_more, limit=len(hits))
        total = None if query.query else self._count(caller, query.filter)
        shown = part.shown if query.has_details else [replace(hit, score_breakdown=None) for hit in part.shown]
        notices = [notice, part.notice] if hits else [notice, self._nothing_notice(caller, query)]
        return NoteHits(
            shown, total, part.next_offset, searched(query.filter.created), " ".join(filter(None, notices)) or None
        )

    def hits(self, caller: Caller, query: NoteQuery) -> tuple[list[NoteHit], str | None]:
        """The same, all of them, and a notice about the search."""
        hits, _, notice = self._hits(caller, query)
        return hits, notice

    def _count(self, caller: Caller, chosen: Filter) -> int:
        with self._db(caller).read() as tx:
            return lists.count(tx, _visible_to(caller, chosen))

    def _hits(self, caller: Caller, query: NoteQuery) -> tuple[list[NoteHit], bool, str | None]:
        if not query.query and query.filter.is_empty:
            raise Invalid(
                "Give words to look for, or a filter.", hint="memory_recent lists the latest notes.", field="query"
            )
        file = self._files.of(caller.user)
        query = replace(query, filter=_visible_to(caller, query.filter))
        return file.vectors.run_in_space(lambda: self._found(file, query))

    def _found(self, file: IndexFile, query: NoteQuery) -> tuple[list[NoteHit], bool, str | None]:
        vector, notice = note_search.query_vector(file, self._files.queries, query)
        search = note_search.NoteSearch(query, file.vectors, vector)
        with file.db.read() as tx:
            found, has_more, about_words = search.page(tx)
            known = origins(tx, NoteItems(), [note_uri(stored.note.id) for stored, _ in found])
        notices = " ".join(filter(None, (notice, about_words))) or None
        hits = [replace(search.hit(*one), origin=known.get(note_uri(one[0].note.id))) for one in found]
        return hits, has_more, notices

    def recent(self, caller: Caller, chosen: Filter, limit: int, offset: int = 0) -> Recent:
        visible = _visible_to(caller, chosen)
        with self._db(caller).read() as tx:
            found = _listed(tx, lists.recent(tx, visible, offset, limit), offset, lists.count(tx, visible), limit)
        return found if found.total else replace(found, notice=self._namespace_notice(caller, chosen.namespace))

    def archived(self, caller: Caller, limit: int, offset: int = 0) -> Recent:
        """Soft-deleted notes."""
        within = caller.confined_to
        with self._db(caller).read() as tx:
            return _listed(
                tx, lists.archived(tx, within, offset, limit), offset, lists.count_archived(tx, within), limit
            )

    def page(self, caller: Caller, chosen: Filter, part: ListedPart) -> tuple[list[NoteSummary], UpdatedCursor | None]:
        """A part of a list for users, and the next cursor of the order `updated`."""
        with self._db(caller).read() as tx:
            found, following = lists.page(tx, _visible_to(caller, chosen), part)
        return [replace(note, snippet=snippets.beginning(note.snippet)) for note in found], following

    def facets(self, caller: Caller, chosen: Filter, words: str, *, is_archived: bool) -> Facets:
        """How many notes there are by namespace, tag, client, source and day."""
        with self._db(caller).read() as tx:
            return facets.facets(tx, _visible_to(caller, chosen), words, is_archived=is_archived)

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        """Without the messages of conversations, which are listed as conversations."""
        found, _ = self.page(caller, Filter(excluded_source="hook"), ListedPart(limit))
        return [LastWrite(note_uri(note.id), note.title, note.updated_at) for note in found]

    def namespaces(self, caller: Caller, offset: int = 0) -> Namespaces:
        """Last changed first."""
        with self._db(caller).read() as tx:
            found = lists.namespaces(tx, caller.confined_to)
        part = cut(found[offset:], lambda one: 80 + len(one.namespace.encode()), offset=offset, total=len(found))
        return Namespaces(part.shown, len(found), part.next_offset, part.notice)

    def sizes(self, caller: Caller) -> list[GroupSize]:
        """How many notes each namespace has, from the stored counts."""
        with self._db(caller).read() as tx:
            found, written = counts.by_namespace(tx, caller.confined_to), lists.last_writes(tx, caller.confined_to)
        return [
            GroupSize(name, count, written.get(name), namespace_uri(name)) for name, count in found.items() if count > 0
        ]

    def namespaces_after(self, caller: Caller, name: str, limit: int) -> list[tuple[str, int]]:
        """(namespace, notes) in the order of their names."""
        with self._db(caller).read() as tx:
            return lists.namespaces_after(tx, caller.confined_to, name, limit)

    def short_id(self, caller: Caller, id_: str) -> str:
        """The beginning of an id, if no other note's id begins like it, else the id: for texts that must be short."""
        with self._db(caller).read() as tx:
            found = notes.ids_starting(tx, id_[: transactions.SHORT_ID_CHARS], caller.confined_to, 2)
        return id_[: transactions.SHORT_ID_CHARS] if found == [id_] else id_

    def namespaces_starting(self, caller: Caller, prefix: str, limit: int) -> list[str]:
        with self._db(caller).read() as tx:
            return lists.namespaces_starting(tx, caller.confined_to, prefix, limit)

    def tags(self, caller: Caller, namespace: str | None, min_count: int, offset: int = 0) -> TagCounts:
        visible = _visible_to(caller, Filter(namespace))
        with self._db(caller).read() as tx:
            found = lists.tag_counts(tx, visible, min_count, MAX_TAGS_LISTED, offset)
            is_all = not offset and len(found) < MAX_TAGS_LISTED
            total = len(found) if is_all else lists.count_tags(tx, visible, min_count)
        part = cut(found, lambda one: 40 + len(one.tag.encode()), offset=offset, total=total)
        notice = part.notice if total else self._namespace_notice(caller, namespace)
        return TagCounts(part.shown, total, part.next_offset, notice)

    def neighbors(self, caller: Caller, id_: str, depth: int, offset: int = 0) -> Neighbourhood:
        """Notes within some links, nearest first, at most MAX_NODES at a time."""
        with self._db(caller).read() as tx:
            root = transactions.existing(tx, id_, caller.confined_to)
            within, limit = caller.confined_to, min(offset + MAX_NODES, MAX_COUNTED_NODES)
            found = links.neighbors(tx, root.seq, within, depth, limit)
            total = len(found.nodes)
            if found.truncated:
                total = links.count_neighbors(tx, root.seq, within, depth, MAX_COUNTED_NODES)
        return cut_neighbors(found, offset, total)

    def link_counts(self, caller: Caller, ids: Sequence[str]) -> dict[str, int]:
        """How many links each of these notes has, in both directions."""
        with self._db(caller).read() as tx:
            return links.counts(tx, ids)

    def picture(self, caller: Caller, limit: int, around: str | None = None, depth: int = 1) -> NotesPicture:
        """The best connected notes, or those within some links of one, and the links among them."""
        within = caller.confined_to
        with self._db(caller).read() as tx:
            if around is None:
                ids = links.best_connected(tx, within, limit)
                shown = links.pictured(tx, dict.fromkeys(ids, 0))
                return NotesPicture(shown, links.among(tx, ids), links.count_notes(tx, within))
            root = transactions.existing(tx, around, within)
            found = links.neighbors(tx, root.seq, within, depth, limit)
            shown = links.pictured(tx, {node.id: node.depth for node in found.nodes})
            total = links.count_neighbors(tx, root.seq, within, depth, MAX_COUNTED_NODES)
            return NotesPicture(shown, found.edges, total)

    def stats(self, caller: Caller, namespace: str | None) -> Stats:
        with self._db(caller).read() as tx:
            found = lists.stats(tx, _visible_to(caller, Filter(namespace)))
        names = sorted(found.by_namespace, key=lambda name: (-found.by_namespace[name], name))
        shown = list(within_budget(names, lambda name: 20 + len(name.encode())))
        missing = len(names) - len(shown)
        return replace(
            found,
            by_namespace={name: found.by_namespace[name] for name in shown},
            notice=f"{missing} more namespaces: memory_list_namespaces lists all of them."
            if missing
            else self._namespace_notice(caller, None if found.total else namespace),
        )

    def _nothing_notice(self, caller: Caller, query: NoteQuery) -> str:
        """For a search without hits: what to do next."""
        if query.offset:
            return "There are no more hits."
        about_namespace = self._namespace_notice(caller, query.filter.namespace)
        return about_namespace or (NOTHING_FITS if query.query else NOTHING_MATCHES)

    def _namespace_notice(self, caller: Caller, name: str | None) -> str | None:
        """For an answer without notes: that there is no such namespace, and which names the caller sees are near."""
        if name is None:
            return None
        with self._db(caller).read() as tx:
            known = [one.namespace for one in lists.namespaces(tx, caller.confined_to)]
        if name in known:
            return None
        near = did_you_mean(nearest(name, known)) or "memory_list_namespaces lists what there is."
        return f"There are no notes in the namespace {shorten(name)!r}. {near}"

    def has_file(self, caller: Caller) -> bool:
        """Whether the user has a file of notes. None is created."""
        return self._files.exists(caller.user)

    def totals(self, caller: Caller) -> Totals:
        """The stored counts."""
        with self._db(caller).read() as tx:
            return counts.totals(tx, caller.confined_to)

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

    def embed_stats(self, caller: Caller) -> EmbedStats:
        """How many notes have vectors, and the embedder that makes them or would make the first; `enabled` if it is
        ready."""
        with self._db(caller).read() as tx:
            space = vectors.space(tx)
            waiting, total, embedded = index.count_waiting(tx), counts.count_unarchived(tx), index.count_embedded(tx)
        backend = self._files.queries.backend(space)
        return EmbedStats(
            queue_size=waiting,
            total=total,
            total_with_embedding=embedded,
            backend_name=backend.name,
            backend_dim=backend.dimensions,
            enabled=backend.is_ready,
        )

    def waiting_for_vectors(self) -> int:
        """How many notes wait, of all users whose notes are open in this process."""
        waiting = 0
        for file in self._files.existing():
            with suppress(Unavailable), file.db.read() as tx:
                waiting += index.count_waiting(tx)
        return waiting

    def _db(self, caller: Caller) -> UserDatabase:
        return self._files.of(caller.user).db


def _visible_to(caller: Caller, chosen: Filter) -> Filter:
    """The filter, limited to the notes that the caller may see."""
    return replace(chosen, within=caller.confined_to)


def _version(tx: Read, stored: StoredNote, version: int, within: str | None) -> Note:
    former = notes.former(tx, stored, version, within)
    if former is None:
        raise NotFound(f"This note has no version {version} to show. Its latest is {stored.note.version}.")
    return former


def _listed(tx: Read, summaries: list[NoteSummary], offset: int, total: int, limit: int) -> Recent:
    found = [replace(note, snippet=snippets.beginning(note.snippet)) for note in summaries]
    part = cut(found, size, offset=offset, total=total, limit=limit)
    known = short_origins(tx, NoteItems(), [note_uri(note.id) for note in part.shown])
    shown = [replace(note, origin=known.get(note_uri(note.id))) for note in part.shown]
    return Recent(shown, total, part.next_offset, part.notice)
