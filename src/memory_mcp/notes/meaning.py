"""How near notes are to a question in meaning."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memory_mcp.notes import storage
from memory_mcp.search import ranking
from memory_mcp.sqlite import Database, Read

if TYPE_CHECKING:
    from memory_mcp.search.vectors import Cosines, Floats, PackedVectors

DUPLICATE = 0.95  # a cosine from which on two notes say nearly the same
MOST_DUPLICATES = 50


@dataclass
class _Copy:
    """This process's packed copy of one user's vectors, and how far it has followed the file."""

    vectors: "PackedVectors"
    background: "Floats"
    space: str
    generation: int  # of the file
    seq: int = 0


@dataclass(frozen=True)
class QuestionVector:
    """A question as a vector, and the space it may be compared in."""

    space: str
    vector: "Floats"


@dataclass(frozen=True)
class Nearness:
    """What the vectors say about one question."""

    scores: dict[int, float] = field(default_factory=dict)  # of each candidate that has a vector, in [0, 1]
    nearest: list[int] = field(default_factory=list)
    related: list[int] = field(default_factory=list)  # of those, the ones near enough to be in the running
    parts: dict[int, int] = field(default_factory=dict)  # which part of each candidate is nearest


class Meaning:
    """The vectors of one user's notes."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._copy: _Copy | None = None

    def near(
        self, tx: Read, asked: QuestionVector, candidates: Iterable[int], allowed: Sequence[int] | None, most: int
    ) -> Nearness:
        """Score these candidates and the `most` notes nearest to the question. `allowed` narrows what may be found."""
        query = asked.vector
        with self._lock:
            copy = self._follow(tx)
            if copy is None or copy.space != asked.space:  # another model's vectors, since a moment ago
                return Nearness()
            cosines = copy.vectors.cosines(query)
            rows = None if allowed is None else cosines.only(allowed)
            usual = ranking.Usual.of(cosines.values if rows is None else cosines.values[rows], copy.background @ query)
            nearest = cosines.nearest(most, rows)
            running = [seq for seq in {*candidates, *nearest} if cosines.of(seq) is not None]
            own = {seq: usual.z(_cosine(cosines, seq)) for seq in running}
            parts = {seq: cosines.nearest_part(seq) for seq in running}
        context = {seq: usual.z(value) for seq, value in _context(tx, running, query).items()}
        scores = {seq: ranking.cosine_part(z, context.get(seq, z)) for seq, z in own.items()}
        related = [seq for seq in nearest if max(own[seq], context.get(seq, own[seq])) >= ranking.RELATED]
        return Nearness(scores, nearest, related, parts)

    def duplicates(self, tx: Read, seq: int) -> list[int]:
        """The other notes whose vectors all but equal this one's, the nearest first. None while it has no vector."""
        vector = storage.vector(tx, seq)
        if vector is None:
            return []
        from memory_mcp.search.vectors import unpack

        with self._lock:
            copy = self._follow(tx)
            if copy is None:
                return []
            cosines = copy.vectors.cosines(unpack(vector))
            near = cosines.nearest(MOST_DUPLICATES, cosines.values >= DUPLICATE)
            return [other for other in near if other != seq and copy.vectors.alike(seq, other) >= DUPLICATE]

    def _follow(self, tx: Read) -> _Copy | None:
        """The copy as the file stands in this transaction. None if there are no vectors."""
        found = storage.space(tx)
        if found is None:
            self._copy = None
            return None
        copy = self._copy
        if copy is None or copy.space != found[0] or copy.generation != self._db.generation:
            copy = self._copy = _empty_copy(*found, self._db.generation)
        _catch_up(copy, tx)
        return copy


def _empty_copy(space: str, background: bytes, generation: int) -> _Copy:
    from memory_mcp.search.vectors import PackedVectors, unpack

    dimensions = int(space.rsplit("/", 1)[1])
    return _Copy(PackedVectors(dimensions), unpack(background).reshape(-1, dimensions), space, generation)


def _catch_up(copy: _Copy, tx: Read) -> None:
    changed: dict[int, list[bytes]] = {}
    for seq, note, _, vector in storage.changed_vectors(tx, copy.seq):
        changed.setdefault(note, [])
        if vector is not None:
            changed[note].append(vector)
        copy.seq = seq
    for note, blobs in changed.items():
        copy.vectors.put(note, blobs)


def _cosine(cosines: "Cosines", seq: int) -> float:
    return cosines.of(seq) or 0.0


def _context(tx: Read, seqs: Sequence[int], query: "Floats") -> dict[int, float]:
    """The cosine of each of these notes taken together with the one before it."""
    from memory_mcp.search.vectors import unpack

    blobs = storage.context_vectors(tx, seqs)
    return {seq: float(unpack(blob) @ query) for seq, blob in blobs.items() if len(blob) == query.nbytes}
