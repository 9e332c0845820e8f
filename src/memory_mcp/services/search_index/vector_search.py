"""How near texts are to a query in meaning."""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from memory_mcp.engines.texts import Query
from memory_mcp.engines.transactions import Read, UserDatabase
from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding import QueryVectors, RelevanceFloor, Space, floor_of
from memory_mcp.services.search import ranking
from memory_mcp.services.search.vector_cache import CacheBudget, VectorCache
from memory_mcp.services.search_index import vector_file
from memory_mcp.services.search_index.storage import vectors
from memory_mcp.services.search_index.storage.vectors import VectorTable
from memory_mcp.services.search_index.tables import Tables
from memory_mcp.services.search_index.vector_file import VectorFile

if TYPE_CHECKING:
    from memory_mcp.services.search.cosines import Cosines
    from memory_mcp.services.search.vectors import Floats, Numbers

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MIN_DUPLICATE_COSINE = 0.95  # from which on two texts count as duplicates
MAX_DUPLICATES = 500
MAX_EMBEDDED_CHARS = 2000  # of a query


@dataclass(frozen=True)
class QueryVector:
    """A query as a vector, and the space it may be compared in."""

    space: Space
    vector: "Floats"
    queries: QueryVectors

    @classmethod
    def of(cls, queries: QueryVectors, space: Space, text: str) -> "QueryVector":
        """Takes a while, so do not call it within a transaction. Raises Unavailable with the reason."""
        return cls(space, queries.vector(space, text[:MAX_EMBEDDED_CHARS]), queries)

    def is_meaningless(self, nearest: float) -> bool:
        """Whether texts without a meaning are nearer to the query than the nearest text, whose cosine is given."""
        return nearest < float((self.queries.meaningless(self.space) @ self.vector).max())


@dataclass(frozen=True)
class Deviations:
    """How much nearer to a query than usual a text is, in standard deviations."""

    own: float
    with_context: float  # together with the text before it; the same if there is none

    @property
    def highest(self) -> float:
        return max(self.own, self.with_context)


@dataclass(frozen=True)
class Nearness:
    """The result of a search by vectors."""

    deviations: dict[int, Deviations] = field(default_factory=dict)  # of each candidate that has a vector
    nearest: list[int] = field(default_factory=list)  # none if nothing fits
    related: list[int] = field(default_factory=list)  # of those, the ones near enough to be candidates
    chunks: dict[int, int] = field(default_factory=dict)  # which chunk of each candidate is nearest
    has_fit: bool = True  # False: even the nearest text is not related to the query
    closeness: dict[int, float] = field(default_factory=dict)  # of each candidate, for a model with a floor


@dataclass(frozen=True)
class ComparedVectors:
    cosines: "Sequence[Cosines]"  # for each query
    vectors_at: "Callable[[Numbers], Floats]"  # the vectors of these rows of the cosines


class SpaceChanged(Exception):
    """Another model has taken over since the query was embedded: embed it again."""


class VectorSearch:
    """The vectors in one file, or of one user in a database."""

    def __init__(self, db: UserDatabase, tables: Tables, budget: CacheBudget) -> None:
        """`budget`: of caches where the database itself can multiply vectors."""
        self._table = VectorTable(tables)
        self._cache = VectorCache()
        self._budget = budget
        self._file = VectorFile(db, db.path, tables) if db.path else None
        self._loading = threading.Lock()
        self._space: Space | None = None  # of the vectors, when it was last read

    def maintain(self) -> None:
        """Erase deleted vectors from the file of packed vectors, and write it again if it is far behind."""
        if self._file is None:
            return
        self.erase_deleted()
        if self._file.renew() and (found := self._file.load()):
            self._cache.load(*found)

    def erase_deleted(self) -> None:
        """Erase deleted vectors from the file of packed vectors, now or, if that fails, the next time."""
        if self._file is None:
            return
        try:
            self._file.erase_deleted()
        except (Unavailable, OSError) as exc:
            log.warning("Deleted vectors are still in a file, which is tried again: %s", exc)

    def space(self, db: UserDatabase) -> Space | None:
        """The space to embed a query for. A search raises SpaceChanged if it is no longer that of the vectors."""
        if self._space is None:
            with db.read() as tx:
                self._space = vectors.space(tx)
        return self._space

    def first_queries(self, query: QueryVector | None) -> Sequence[Query]:
        """What a search reads first, to be prefetched."""
        if query is None:
            return ()
        reached = self._cache.reached
        changes = [self._table.changes_query(reached)] if reached else []
        return [vectors.background_query(query.space), *changes]

    def run_in_space(self, search: Callable[[], Result]) -> Result:
        """Run a search, which embeds its query, again if another model takes over meanwhile."""
        while True:
            with suppress(SpaceChanged):
                return search()

    def near(
        self,
        tx: Read,
        query: QueryVector,
        candidates: Collection[int],
        flags: bytes | None,
        limit: int,
        *,
        is_partial: bool = False,
    ) -> Nearness:
        """Score these candidates and the `limit` texts nearest to the query. `flags`: a byte for each text that may be
        found. Candidates have words of the query; without any, the query may be of words that do not exist.
        `is_partial`: other searches for the same query look at the other texts. Raises SpaceChanged."""
        from memory_mcp.services.search.vectors import unpack

        space = query.space
        background = unpack(self._background(tx, space)).reshape(-1, space.dimensions)
        unrelated = background @ query.vector
        with self._compare(tx, space, [query.vector]) as compared:
            (cosines,) = compared.cosines
            rows = None if flags is None else cosines.rows_allowed(flags)
            count = len(cosines.owners) if rows is None or is_partial else len(rows)
            nearest = cosines.nearest(limit, rows)
            found = cosines.of({*candidates, *nearest})
            deviations = self._deviations(tx, compared, query.vector, rows, background, found)
        chunks = {seq: chunk for seq, (_, chunk) in found.items()}
        floor = floor_of(space)
        cosines_found = [cosine for cosine, _ in found.values()]
        closeness = dict(zip(found, ranking.closeness(floor, cosines_found, unrelated), strict=True)) if floor else {}
        near = {seq: found[seq][0] for seq in nearest}
        has_fit = floor is None or self._has_fit(tx, floor, near, count, unrelated)
        if floor and near and has_fit and not candidates:
            has_fit = not query.is_meaningless(max(near.values()))
        if not has_fit:
            return Nearness(deviations, chunks=chunks, has_fit=False, closeness=closeness)
        related = [seq for seq in nearest if deviations[seq].highest >= ranking.MIN_RELATED_DEVIATIONS]
        return Nearness(deviations, nearest, related, chunks, closeness=closeness)

    def _deviations(
        self,
        tx: Read,
        compared: "ComparedVectors",
        query: "Floats",
        rows: "Numbers | None",
        background: "Floats",
        found: Mapping[int, tuple[float, int]],
    ) -> dict[int, Deviations]:
        """Of texts by their nearest chunks, from a query without what all texts that may be found have in common."""
        import numpy as np

        from memory_mcp.services.search.cosines import centred

        (cosines,) = compared.cosines
        sample = cosines.sample(rows)
        own_rows = np.array([cosines.row(seq, chunk) for seq, (_, chunk) in found.items()], dtype=np.int64)
        vectors = compared.vectors_at(np.concatenate((sample, own_rows)))
        usual = cosines.statistics(rows, background @ query)
        query, usual = centred(query, usual, vectors[: len(sample)], background)
        own = {
            seq: usual.z(cosine) for seq, cosine in zip(found, (vectors[len(sample) :] @ query).tolist(), strict=True)
        }
        context = {seq: usual.z(cosine) for seq, cosine in self._context(tx, list(found), query).items()}
        return {seq: Deviations(z, context.get(seq, z)) for seq, z in own.items()}

    def _background(self, tx: Read, space: Space) -> bytes:
        """Raises SpaceChanged."""
        packed = vectors.background(tx, space)
        if packed is None:
            self._space = None
            raise SpaceChanged
        return packed

    def _has_fit(
        self, tx: Read, floor: RelevanceFloor, cosines: Mapping[int, float], count: int, unrelated: "Floats"
    ) -> bool:
        """Whether a text alone fits: two unrelated ones together are a little near to every query. `unrelated` has the
        cosines of texts that fit no query."""
        nearest = max(cosines.values(), default=-1.0)
        if ranking.fits(floor, nearest, count, unrelated):
            return True
        if not ranking.fits(floor, nearest, 1, unrelated):
            return False
        alone = [seq for seq, cosine in cosines.items() if ranking.fits(floor, cosine, 1, unrelated)]
        return bool(self._table.longer_than(tx, floor.max_short_bytes, alone))

    def near_text(self, tx: Read, seq: int, min_cosine: float = MIN_DUPLICATE_COSINE) -> dict[int, float]:
        """The cosine of the other texts with nearly the same vectors, nearest first. Empty while the text has no
        vector."""
        return self.near_texts(tx, [seq], min_cosine).get(seq, {})

    def near_texts(self, tx: Read, seqs: Sequence[int], min_cosine: float) -> dict[int, dict[int, float]]:
        """The same of each of these texts that has a vector, in one pass over all vectors."""
        firsts = {seq: vector for seq in seqs if (vector := self._table.first(tx, seq)) is not None}
        space = vectors.space(tx) if firsts else None
        if space is None:
            return {}
        from memory_mcp.services.search.vectors import unpack

        with self._compare(tx, space, [unpack(vector) for vector in firsts.values()]) as compared:
            near = {
                seq: _near_first_chunk(cosines, seq, min_cosine)
                for seq, cosines in zip(firsts, compared.cosines, strict=True)
            }
        return {seq: self._near_whole(tx, seq, others, min_cosine) for seq, others in near.items()}

    def _near_whole(
        self, tx: Read, seq: int, others: dict[int, tuple[float, int]], min_cosine: float
    ) -> dict[int, float]:
        """Of texts whose first chunks are near: (cosine, number of chunks)."""
        if all(chunks == 1 for _, chunks in others.values()):
            return {other: cosine for other, (cosine, _) in others.items()}
        from memory_mcp.services.search.vectors import alike

        own = self._table.chunks(tx, seq)
        whole = {other: alike(own, self._table.chunks(tx, other)) for other in others}
        return {other: cosine for other, cosine in whole.items() if cosine >= min_cosine}

    @contextmanager
    def _compare(self, tx: Read, space: Space, queries: "Sequence[Floats]") -> Iterator["ComparedVectors"]:
        """Compare every chunk of every text with each query. What it yields is valid until the block ends."""
        from memory_mcp.services.search.vectors import pack

        if tx.multiplies_vectors and not self._budget.admits(self._cache):
            found = [self._table.all_cosines(tx, pack(query)) for query in queries]
            yield ComparedVectors(found, partial(self._table.vectors_at, tx, found[0], space.dimensions))
            return
        self._load(tx, space)
        changed = partial(self._table.changed, tx)
        with self._cache.vectors(vector_file.origin(tx, space), space.dimensions, changed) as packed:
            yield ComparedVectors(packed.cosines_of(queries), packed.at)
        if tx.multiplies_vectors:
            self._budget.record_use(self._cache)

    def _load(self, tx: Read, space: Space) -> None:
        """Load the packed vectors from their file, unless they are there: else all would be read one by one."""
        origin = vector_file.origin(tx, space)
        if self._file is None or self._cache.is_loaded(origin):
            return
        with self._loading:
            if not self._cache.is_loaded(origin) and (found := self._file.load()):
                self._cache.load(*found)

    def _context(self, tx: Read, seqs: Sequence[int], query: "Floats") -> dict[int, float]:
        """The cosine of each of these texts together with the one before it."""
        from memory_mcp.services.search.vectors import pack

        return self._table.context_cosines(tx, seqs, pack(query)) if self._table.tables.has_context else {}


def _near_first_chunk(cosines: "Cosines", seq: int, min_cosine: float) -> dict[int, tuple[float, int]]:
    """(cosine, number of chunks) of the texts with as many chunks as this one that have a near one, nearest first."""
    near = cosines.nearest(MAX_DUPLICATES, min_cosine=min_cosine)
    rows = {one: cosines.rows_of.get(one, ()) for one in (seq, *near)}
    count = len(rows[seq])
    same = [other for other in near if other != seq and len(rows[other]) == count]
    values = cosines.at_rows([rows[other][0] for other in same])
    return {other: (value, count) for other, value in zip(same, values, strict=True)}
