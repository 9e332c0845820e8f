"""How near notes are to a question in meaning."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from memory_mcp.embedding import Space
from memory_mcp.notes import storage
from memory_mcp.search import ranking
from memory_mcp.sqlite import Read

if TYPE_CHECKING:
    from memory_mcp.search.vectors import Floats, PackedVectors

DUPLICATE = 0.95  # a cosine from which on two notes say nearly the same
MOST_DUPLICATES = 500
TOGETHER = 2048  # vectors that are packed at once


@dataclass
class _Copy:
    """This process's packed copy of one user's vectors, and how far it has followed the file."""

    vectors: "PackedVectors"
    background: "Floats"
    space: Space
    generation: int  # of the file
    seq: int = 0


@dataclass(frozen=True)
class QuestionVector:
    """A question as a vector, and the space it may be compared in."""

    space: Space
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

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copy: _Copy | None = None

    def near(
        self, tx: Read, asked: QuestionVector, candidates: Iterable[int], flags: bytes | None, most: int
    ) -> Nearness:
        """Score these candidates and the `most` notes nearest to the question. `flags` narrow what may be found: a
        byte for each note."""
        query = asked.vector
        with self._lock:
            copy = self._follow(tx)
            if copy is None or copy.space != asked.space:  # another model's vectors, since a moment ago
                return Nearness()
            cosines = copy.vectors.cosines(query)
            rows = None if flags is None else cosines.rows_allowed(flags)
            usual = ranking.Usual.of(cosines.values if rows is None else cosines.values[rows], copy.background @ query)
            nearest = cosines.nearest(most, rows)
            found = cosines.of({*candidates, *nearest})
        own = {seq: usual.z(cosine) for seq, (cosine, _) in found.items()}
        context = {seq: usual.z(cosine) for seq, cosine in _context(tx, list(found), query).items()}
        scores = {seq: ranking.cosine_part(z, context.get(seq, z)) for seq, z in own.items()}
        related = [seq for seq in nearest if max(own[seq], context.get(seq, own[seq])) >= ranking.RELATED]
        return Nearness(scores, nearest, related, {seq: part for seq, (_, part) in found.items()})

    def duplicates(self, tx: Read, seq: int) -> list[int]:
        """The other notes whose vectors all but equal this one's, the nearest first. None while it has no vector."""
        vector = storage.vector(tx, seq)
        if vector is None:
            return []
        import numpy as np

        from memory_mcp.search.vectors import unpack

        with self._lock:
            copy = self._follow(tx)
            if copy is None:
                return []
            cosines = copy.vectors.cosines(unpack(vector))
            near = cosines.nearest(MOST_DUPLICATES, np.flatnonzero(cosines.values >= DUPLICATE))
            return [other for other in near if other != seq and copy.vectors.alike(seq, other) >= DUPLICATE]

    def _follow(self, tx: Read) -> _Copy | None:
        """The copy as the file stands in this transaction. None if there are no vectors."""
        space = storage.space(tx)
        if space is None:
            self._copy = None
            return None
        copy = self._copy
        if copy is None or copy.space != space or copy.generation != tx.generation:
            copy = self._copy = _empty_copy(tx, space)
        _catch_up(copy, tx)
        return copy


def _empty_copy(tx: Read, space: Space) -> _Copy:
    from memory_mcp.search.vectors import PackedVectors, unpack

    background = unpack(storage.background(tx)).reshape(-1, space.dimensions)
    return _Copy(PackedVectors(space.dimensions), background, space, tx.generation)


def _catch_up(copy: _Copy, tx: Read) -> None:
    rows: list[tuple[int, bytes]] = []
    for change, parts in groupby(storage.changed_vectors(tx, copy.seq), key=itemgetter(0)):
        rows += [(note, vector or b"") for _, note, _, vector in parts]
        if len(rows) >= TOGETHER:
            copy.vectors.put_all(rows)
            copy.seq, rows = change, []
        reached = change
    if rows:
        copy.vectors.put_all(rows)
        copy.seq = reached


def _context(tx: Read, seqs: Sequence[int], query: "Floats") -> dict[int, float]:
    """The cosine of each of these notes taken together with the one before it."""
    from memory_mcp.search.vectors import unpack

    blobs = storage.context_vectors(tx, seqs, query.nbytes)
    if not blobs:
        return {}
    cosines = unpack(b"".join(blobs.values())).reshape(len(blobs), -1) @ query
    return dict(zip(blobs, cosines.tolist(), strict=True))
