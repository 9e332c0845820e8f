import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.changes import Changes
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.engines.sqlite.pending_index import read_indexed
from memory_mcp.engines.transactions import Read, UserDatabases
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import LastWrite, within_budget
from memory_mcp.families.references import GroupSize, SaveCopy, changed_meanwhile
from memory_mcp.families.texts import Group, Text
from memory_mcp.families.vault import journal_items, storage
from memory_mcp.families.vault.journal_items import WRITES, VaultItems
from memory_mcp.families.vault.model import (
    VAULT_URI,
    Committed,
    Memory,
    MemoryHit,
    MemoryHits,
    MemoryQuery,
    MemoryScope,
    NewMemory,
    Pruned,
    PruneFilter,
    Range,
    session_uri,
    uri_of,
)
from memory_mcp.families.writes import Journal, StateUndo, short_origins
from memory_mcp.services.search import fts_query, ranking, word_search
from memory_mcp.services.search.text_facts import TextFacts
from memory_mcp.services.search.vector_cache import VectorCache
from memory_mcp.services.sessions import Session, Sessions

if TYPE_CHECKING:
    from memory_mcp.services.search.cosines import Cosines

BULK_RULE = "Bulk vault prune requires at least one filter."  # the spec's words
MAX_BY_WORDS = 200  # candidates of each kind of search
MAX_BY_VECTOR = 100
FULL_COVERAGE = 0.999999  # a share of the query that counts as all of it: sums of floats are inexact


@dataclass(frozen=True)
class MemoryPage:
    """Some memories of a longer list."""

    memories: list[Memory]
    total: int
    next_offset: int | None  # where to go on; None at the end


class Vault:
    """The operations on the vault."""

    def __init__(self, tenants: UserDatabases, sessions: Sessions, changes: Changes, *, dimensions: int) -> None:
        self._tenants = tenants
        self._sessions = sessions
        self._changes = changes
        self._dimensions = dimensions
        self._followed: dict[str, VectorCache] = {}
        self.index_merge = IndexMerge("vault_words", tenants.opened)
        sessions.on_end(self.delete_sessions_data)
        changes.listen(self.index_merge.merge_if_due)

    def open_local(self) -> None:
        """Open the local user's file now, so that a damaged or newer one is reported at the start."""
        self._tenants.database(LOCAL_USER)

    def name_session(self, session: Session, name: str) -> Session:
        """Name the session of a connection, for every later call that names none."""
        return self._sessions.choose(session, name)

    def commit(self, caller: Caller, session: Session, memory: NewMemory) -> Committed:
        """Store or replace one memory, findable at once. Raises Invalid for a vector that does not fit."""
        if memory.embedding is not None:
            self._check_embedding(memory.scope, memory.embedding)
        kept = self._sessions.hold_for_write(caller.user, session) if memory.scope == "session" else nullcontext()
        with kept, self._tenants.database(caller.user).write() as tx:
            if memory.scope == "session":
                is_new = storage.upsert(tx, session.id, memory)
            else:
                before = storage.get_with_vector(tx, memory.key)
                is_new = storage.upsert(tx, session.id, memory, exists=before is not None)
                WRITES.record(tx, caller, journal_items.memory_write(before, memory))
        self._publish(caller, session, memory.scope, [memory.key], list_changed=is_new)
        return Committed(True, memory.key, memory.scope)

    def search(self, caller: Caller, session: Session, query: MemoryQuery) -> MemoryHits:
        """The best matches first; the newest first where there is no query to match."""
        if query.embedding is not None:
            self._check_vector(query.embedding, "query_embedding")
        if not query.query and not query.tags:
            raise Invalid("An empty query needs tags to list by. Give words to look for, or tags.", field="query")
        with self._reading(caller.user) as tx:
            counts = {
                scope: count
                for scope in storage.SCOPES
                if query.covers(scope) and (count := storage.count(tx, scope, session.id, query.tags))
            }
            notice = None
            if query.query or query.embedding is not None:
                hits = self._ranked(tx, caller, session, query, counts)
                if not hits and (plain := fts_query.without_syntax(query.query, storage.COLUMNS)):
                    hits = self._ranked(tx, caller, session, replace(query, query=plain), counts)
                    notice = fts_query.PLAIN_WORDS if hits else None
            else:
                hits = _newest(tx, session, query, counts)
        shown = within_budget(hits, _size)
        note = None
        if len(shown) < len(hits):
            note = f"{len(hits) - len(shown)} more matched, too long to show at once. Narrow the query or the tags."
        return MemoryHits(list(shown), sum(counts.values()), note, notice)

    def _reading(self, user: str) -> AbstractContextManager[Read]:
        return read_indexed(self._tenants.database(user), storage.has_changes, storage.index_changes)

    def prune(self, caller: Caller, session: Session, filters: PruneFilter) -> Pruned:
        """Delete the memories that match every filter. Raises Invalid for a prune of the vault without any."""
        if filters.covers("vault") and not filters.has_filter:
            raise Invalid(BULK_RULE)
        pruned: dict[MemoryScope, list[str]] = {}
        with self._tenants.database(caller.user).write() as tx:
            for scope in storage.SCOPES:
                if filters.covers(scope):
                    going = storage.matching(tx, filters) if scope == "vault" else []
                    pruned[scope] = storage.prune(tx, scope, session.id, filters)
                    WRITES.record(tx, caller, *map(journal_items.memory_deletion, going))
        for scope, keys in pruned.items():
            if keys:
                self._publish(caller, session, scope, keys, list_changed=True)
        return Pruned(sum(map(len, pruned.values())))

    def revise(self, caller: Caller, session: Session, key: str, was: str, content: str) -> None:
        """Replace the content of a memory, which loses its vector. Raises Conflict with the code `changed` if the
        content is another than `was` by now."""
        with self._tenants.database(caller.user).write() as tx:
            before = _existing(tx, key)
            if before[0].content != was:
                raise changed_meanwhile("The memory")
            memory = NewMemory("vault", key, content, tuple(before[0].tags))
            storage.upsert(tx, session.id, memory, exists=True)
            WRITES.record(tx, caller, journal_items.memory_write(before, memory))
        self._publish(caller, session, "vault", [key], list_changed=False)

    def delete(self, caller: Caller, session: Session, key: str, save_copy: SaveCopy | None) -> None:
        """Delete one memory. `save_copy` gets a copy of it first, in the same transaction."""
        with self._tenants.database(caller.user).write() as tx:
            memory, vector = _existing(tx, key)
            if save_copy:
                save_copy({**asdict(memory), "embedding": list(storage.unpacked(vector)) if vector else None})
            storage.prune(tx, "vault", session.id, PruneFilter("vault", key))
            WRITES.record(tx, caller, journal_items.memory_deletion((memory, vector), for_good=save_copy is None))
            if save_copy is None:
                WRITES.erase_copies(tx, [key])
        self._publish(caller, session, "vault", [key], list_changed=True)

    def get(self, caller: Caller, key: str) -> Memory:
        with self._reading(caller.user) as tx:
            memory = storage.get(tx, key)
        if memory is None:
            raise NotFound("The vault has no memory under this key.", hint="search_memories finds what it has.")
        return memory

    def origins(self, caller: Caller, keys: Sequence[str]) -> dict[str, str]:
        """Who last wrote each of these vault memories, in a few words. Those without a record are left out."""
        with self._reading(caller.user) as tx:
            known = short_origins(tx, VaultItems(), [uri_of(key) for key in keys])
        return {key: known[uri_of(key)] for key in keys if uri_of(key) in known}

    def page(self, caller: Caller, wanted: Range) -> MemoryPage:
        return self._part(caller, "vault", "", wanted)

    def session_page(self, caller: Caller, session: Session, wanted: Range) -> MemoryPage:
        return self._part(caller, "session", session.id, wanted)

    def keys_after(self, caller: Caller, id_: int, limit: int) -> list[tuple[int, str]]:
        """(id, key) of vault memories in the order they were first written, after `id_`."""
        with self._reading(caller.user) as tx:
            return storage.keys_after(tx, id_, limit)

    def count(self, caller: Caller) -> int:
        with self._reading(caller.user) as tx:
            return storage.count(tx, "vault", "", ())

    def size(self, caller: Caller) -> GroupSize:
        with self._reading(caller.user) as tx:
            last = storage.last_written(tx, 1)
            return GroupSize(None, storage.count(tx, "vault", "", ()), last[0][1] if last else None)

    def groups(self, caller: Caller) -> Iterable[Group]:
        """The vault as texts, for recall."""

        def versions() -> dict[str, str]:
            with self._reading(caller.user) as tx:
                return storage.versions(tx)

        def texts(keys: Sequence[str]) -> Iterator[Text | None]:
            with self._reading(caller.user) as tx:
                sessions = WRITES.last_sessions(tx, keys)
                for key in keys:
                    memory = storage.get(tx, key)
                    yield _text(key, memory, *sessions.get(key, ())) if memory else None

        return [Group("vault", versions, texts)]

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        with self._reading(caller.user) as tx:
            return [LastWrite(uri_of(key), key, at) for key, at in storage.last_written(tx, limit)]

    def keys_starting(self, caller: Caller, prefix: str, limit: int) -> list[str]:
        with self._reading(caller.user) as tx:
            return storage.keys_starting(tx, prefix, limit)

    def everything(self, caller: Caller) -> Iterator[tuple[Memory, tuple[float, ...] | None]]:
        """All memories of the vault, each with its vector if it has one."""
        with self._reading(caller.user) as tx:
            for memory, vector in storage.everything(tx):
                yield memory, storage.unpacked(vector) if vector else None

    def has(self, caller: Caller, key: str) -> bool:
        with self._reading(caller.user) as tx:
            return storage.get(tx, key) is not None

    def import_memory(self, caller: Caller, memory: NewMemory, created_at: str, updated_at: str) -> bool:
        """Store a memory of an export, with its times. False, and nothing is changed, if its key exists. A vector of
        another length is left out."""
        if memory.embedding is not None and len(memory.embedding) != self._dimensions:
            memory = replace(memory, embedding=None)
        with self._tenants.database(caller.user).write() as tx:
            is_new = storage.add(tx, memory, created_at, updated_at)
            if is_new:
                WRITES.record(tx, caller, journal_items.memory_write(None, memory))
        if is_new:
            self._changes.publish(caller.user, [VAULT_URI, uri_of(memory.key)], list_changed=True)
        return is_new

    def journals(self, caller: Caller) -> Iterable[Journal]:
        db = self._tenants.database(caller.user)
        undo = StateUndo(items := VaultItems(), db.read, lambda keys: db.write(), partial(self._publish_undone, caller))
        yield Journal(items, db.read, undo)

    def _publish_undone(self, caller: Caller, keys: Sequence[str]) -> None:
        self._changes.publish(caller.user, [VAULT_URI, *map(uri_of, keys)], list_changed=True)

    def delete_sessions_data(self, user: str, session_ids: Sequence[str]) -> None:
        """Called when sessions have ended: their memories are deleted."""
        if not self._tenants.exists(user):
            return
        with self._tenants.database(user).write() as tx:
            for session_id in session_ids:
                storage.prune(tx, "session", session_id, PruneFilter("session"))

    def _part(self, caller: Caller, scope: MemoryScope, session_id: str, wanted: Range) -> MemoryPage:
        with self._reading(caller.user) as tx:
            total = storage.count(tx, scope, session_id, ())
            memories = storage.page(tx, scope, session_id, wanted)
        shown = list(within_budget(memories, _size))
        reached = wanted.offset + len(shown)
        return MemoryPage(shown, total, reached if shown and reached < total else None)

    def _check_embedding(self, scope: MemoryScope, vector: tuple[float, ...]) -> None:
        if scope == "session":
            raise Invalid(
                "A session memory cannot have an embedding.",
                hint="Leave `embedding` out, or use scope 'vault'.",
                field="embedding",
            )
        self._check_vector(vector, "embedding")

    def _check_vector(self, vector: tuple[float, ...], field: str) -> None:
        if len(vector) != self._dimensions or not _fits_float32(vector):
            raise Invalid(
                f"{field} must be exactly D = {self._dimensions} finite float32 numbers; got {len(vector)}. "
                "D is set with MEMORY_MCP_EMBEDDING_DIM.",
                field=field,
                dimensions=self._dimensions,
            )

    def _publish(
        self, caller: Caller, session: Session, scope: MemoryScope, keys: list[str], *, list_changed: bool
    ) -> None:
        if scope == "session":
            self._changes.publish(caller.user, [session_uri(session.id)], list_changed=False)
        else:
            self._changes.publish(caller.user, [VAULT_URI, *map(uri_of, keys)], list_changed=list_changed)

    def _ranked(
        self, tx: Read, caller: Caller, session: Session, query: MemoryQuery, counts: Mapping[MemoryScope, int]
    ) -> list[MemoryHit]:
        """`counts`: how many memories have the tags, in each scope with such memories."""
        scores: dict[MemoryScope, dict[int, float]] = {}
        for scope, count in counts.items():
            lexical, exact = _by_words(tx, session, query, scope, count)
            if scope == "vault" and query.embedding is not None:
                lexical = self._blended(tx, caller, query, lexical, query.embedding)
            scores[scope] = lexical | dict.fromkeys(exact, 1.0)
        ranked = sorted((-score, scope, id_) for scope, found in scores.items() for id_, score in found.items())
        return _hits(tx, [(scope, id_, -score) for score, scope, id_ in ranked[: query.limit]])

    def _blended(
        self, tx: Read, caller: Caller, query: MemoryQuery, lexical: dict[int, float], vector: tuple[float, ...]
    ) -> dict[int, float]:
        """Words and vectors together. A memory that only its vector finds counts, unless its cosine is negative."""
        tagged = storage.ids_with_tags(tx, query.tags) if query.tags else None
        with self._cosines(tx, caller, vector) as cosines:
            rows = None if tagged is None else cosines.rows_among(tagged)
            nearest = cosines.nearest(max(MAX_BY_VECTOR, query.limit), rows)
            found = cosines.of({*lexical, *nearest})
        return lexical | {
            id_: ranking.blend(lexical.get(id_, 0.0), cosine)
            for id_, (cosine, _) in found.items()
            if cosine > 0 or id_ in lexical
        }

    @contextmanager
    def _cosines(self, tx: Read, caller: Caller, vector: tuple[float, ...]) -> "Iterator[Cosines]":
        """Of every memory that has a vector. Valid until the block ends."""
        from memory_mcp.services.search.cosines import KnownCosines  # NumPy: only searches with vectors need it
        from memory_mcp.services.search.vectors import (
            pack,
            unit,
            unpack,
        )

        query = unit(unpack(storage.packed(vector)))
        if tx.multiplies_vectors:
            yield KnownCosines.sorted(*storage.cosines(tx, pack(query)))
            return
        followed = self._followed.setdefault(caller.user, VectorCache())
        with followed.vectors(tx.generation, self._dimensions, partial(storage.changed_vectors, tx)) as vectors:
            yield vectors.cosines(query)


def _existing(tx: Read, key: str) -> tuple[Memory, bytes | None]:
    found = storage.get_with_vector(tx, key)
    if found is None:
        raise NotFound("The vault has no memory under this key.", hint="search_memories finds what it has.")
    return found


def _fits_float32(vector: tuple[float, ...]) -> bool:
    try:
        storage.packed(vector)
        return all(map(math.isfinite, vector))
    except OverflowError:
        return False


def _by_words(
    tx: Read, session: Session, query: MemoryQuery, scope: MemoryScope, count: int
) -> tuple[dict[int, float], set[int]]:
    """The lexical score in [0, 1] of each memory that words find, and which memories the query equals. `count`: how
    many have the tags."""
    index = storage.VaultWordIndex(tx, scope, session.id, query.tags, count)
    matches = word_search.by_words(index, query.query, max(MAX_BY_WORDS, query.limit))
    whole = [id_ for id_, share in matches.covered.items() if share > FULL_COVERAGE]
    return matches.scores(), storage.equal_to(tx, query.query, scope, session.id, query.tags, whole)


def _newest(tx: Read, session: Session, query: MemoryQuery, scopes: Iterable[MemoryScope]) -> list[MemoryHit]:
    """Every memory that has the tags, the one last written first. There is no query, so all are equally relevant."""
    found = [
        (updated, scope, id_)
        for scope in scopes
        for updated, id_ in storage.newest(tx, scope, session.id, query.tags, query.limit)
    ]
    found.sort(reverse=True)
    return _hits(tx, [(scope, id_, 1.0) for _, scope, id_ in found[: query.limit]])


def _hits(tx: Read, ranked: list[tuple[MemoryScope, int, float]]) -> list[MemoryHit]:
    """The found memories, in the order given."""
    relevances: dict[MemoryScope, dict[int, float]] = {}
    for scope, id_, relevance in ranked:
        relevances.setdefault(scope, {})[id_] = relevance
    found = {scope: storage.hits(tx, scope, wanted) for scope, wanted in relevances.items()}
    return [found[scope][id_] for scope, id_, _ in ranked if id_ in found[scope]]


def _text(key: str, memory: Memory, session_id: str | None = None, written_at: str | None = None) -> Text:
    facts = TextFacts(memory.created_at, memory.updated_at, session_id=session_id, written_at=written_at)
    return Text(uri_of(key), key, memory.content, tuple(memory.tags), facts=facts)


def _size(item: MemoryHit | Memory) -> int:
    """About how many bytes of JSON it makes."""
    return 100 + len(item.key.encode()) + len(item.content.encode()) + sum(len(tag) + 4 for tag in item.tags)
