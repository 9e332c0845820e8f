"""How near notes are to a question in meaning."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from memory_mcp.embedding import Space
from memory_mcp.engines.sqlite import Read
from memory_mcp.families.notes.storage import vectors
from memory_mcp.search import ranking
from memory_mcp.search.vector_cache import VectorCache

if TYPE_CHECKING:
    from memory_mcp.search.vectors import Floats, PackedVectors

DUPLICATE = 0.95  # a cosine from which on two notes say nearly the same
MAX_DUPLICATES = 500


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
        self._followed = VectorCache()

    def near(
        self, tx: Read, asked: QuestionVector, candidates: Iterable[int], flags: bytes | None, most: int
    ) -> Nearness:
        """Score these candidates and the `most` notes nearest to the question. `flags` narrow what may be found: a
        byte for each note."""
        query, space = asked.vector, asked.space
        if vectors.space(tx) != space:  # another model's vectors, since a moment ago
            return Nearness()
        background = _background(tx, space) @ query
        with self._packed(tx, space) as packed:
            cosines = packed.cosines(query)
            rows = None if flags is None else cosines.rows_allowed(flags)
            usual = ranking.CosineStatistics.of(cosines.values if rows is None else cosines.values[rows], background)
            nearest = cosines.nearest(most, rows)
            found = cosines.of({*candidates, *nearest})
        own = {seq: usual.z(cosine) for seq, (cosine, _) in found.items()}
        context = {seq: usual.z(cosine) for seq, cosine in _context(tx, list(found), query).items()}
        scores = {seq: ranking.cosine_part(z, context.get(seq, z)) for seq, z in own.items()}
        related = [seq for seq in nearest if max(own[seq], context.get(seq, own[seq])) >= ranking.RELATED]
        return Nearness(scores, nearest, related, {seq: part for seq, (_, part) in found.items()})

    def duplicates(self, tx: Read, seq: int) -> list[int]:
        """The other notes whose vectors all but equal this one's, the nearest first. None while it has no vector."""
        vector, space = vectors.first(tx, seq), vectors.space(tx)
        if vector is None or space is None:
            return []
        import numpy as np

        from memory_mcp.search.vectors import unpack

        with self._packed(tx, space) as packed:
            cosines = packed.cosines(unpack(vector))
            near = cosines.nearest(MAX_DUPLICATES, np.flatnonzero(cosines.values >= DUPLICATE))
            return [other for other in near if other != seq and packed.alike(seq, other) >= DUPLICATE]

    def _packed(self, tx: Read, space: Space) -> AbstractContextManager["PackedVectors"]:
        return self._followed.vectors((tx.generation, space), space.dimensions, partial(vectors.changed, tx))


def _background(tx: Read, space: Space) -> "Floats":
    from memory_mcp.search.vectors import unpack

    return unpack(vectors.background(tx)).reshape(-1, space.dimensions)


def _context(tx: Read, seqs: Sequence[int], query: "Floats") -> dict[int, float]:
    """The cosine of each of these notes taken together with the one before it."""
    from memory_mcp.search.vectors import unpack

    blobs = vectors.contexts(tx, seqs, query.nbytes)
    if not blobs:
        return {}
    cosines = unpack(b"".join(blobs.values())).reshape(len(blobs), -1) @ query
    return dict(zip(blobs, cosines.tolist(), strict=True))
