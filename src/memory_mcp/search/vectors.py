"""Cosine similarity over packed float32 vectors, exact, in process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


def unpack(blob: bytes) -> Floats:
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def pack(vector: Floats) -> bytes:
    return vector.astype("<f4").tobytes()


def unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length else vector


@dataclass(frozen=True)
class Cosines:
    """How near each row is to a query. A memory has a row for each of its parts."""

    owners: Numbers  # the memory of each row
    values: Floats
    rows_of: dict[int, list[int]]

    def of(self, owner: int) -> float | None:
        """Of a memory's nearest part; None if it has no vector."""
        rows = self.rows_of.get(owner)
        return max(float(self.values[row]) for row in rows) if rows else None

    def nearest_part(self, owner: int) -> int:
        rows = self.rows_of[owner]
        return max(range(len(rows)), key=lambda part: self.values[rows[part]])

    def nearest(self, most: int, allowed: NDArray[np.bool_] | None = None) -> list[int]:
        """The memories nearest to the query, the nearest first; only from the rows allowed."""
        rows = np.arange(len(self.values)) if allowed is None else np.flatnonzero(allowed)
        values = self.values[rows]
        wanted = 4 * most  # a few more, since one memory may have several rows among them
        if len(rows) > wanted:
            best = np.argpartition(values, len(values) - wanted)[-wanted:]
            rows, values = rows[best], values[best]
        order = np.argsort(-values, kind="stable")
        return list(dict.fromkeys(self.owners[rows[order]].tolist()))[:most]

    def only(self, owners: Iterable[int]) -> NDArray[np.bool_]:
        """Which rows belong to some memories."""
        return np.isin(self.owners, np.fromiter(owners, dtype=np.int64))


class PackedVectors:
    """Vectors of memories, unit length, in one block of memory. Not thread-safe: whoever owns it locks."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._block: Floats = np.empty((64, dimensions), dtype=np.float32)
        self._owners: Numbers = np.empty(64, dtype=np.int64)
        self._count = 0
        self._rows_of: dict[int, list[int]] = {}

    def put(self, owner: int, blobs: Sequence[bytes]) -> None:
        """Set a memory's vectors, one for each part. What is not a vector of this length belongs to another model: a
        memory with such a one is left out."""
        self.drop(owner)
        vectors = [unpack(blob) for blob in blobs if len(blob) == 4 * self._dimensions]
        if len(vectors) != len(blobs) or not all(np.isfinite(vector).all() for vector in vectors):
            return
        for vector in vectors:
            self._append(owner, unit(vector))

    def drop(self, owner: int) -> None:
        for row in sorted(self._rows_of.pop(owner, ()), reverse=True):
            self._count -= 1
            if row != self._count:  # the last vector moves into the gap
                self._block[row] = self._block[self._count]
                moved = self._owners[row] = self._owners[self._count]
                rows = self._rows_of[int(moved)]
                rows[rows.index(self._count)] = row

    def cosines(self, query: Floats) -> Cosines:
        """The cosine of every vector with the query's. It is over when the vectors change."""
        return Cosines(self._owners[: self._count], self._block[: self._count] @ query, self._rows_of)

    def alike(self, one: int, other: int) -> float:
        """The cosine of the parts that differ most. 0 if one memory has more parts than the other."""
        rows, others = self._rows_of.get(one, []), self._rows_of.get(other, [])
        if len(rows) != len(others) or not rows:
            return 0.0
        return float(np.einsum("ij,ij->i", self._block[rows], self._block[others]).min())

    def _append(self, owner: int, vector: Floats) -> None:
        if self._count == len(self._block):
            more = len(self._block) // 2
            self._block = np.concatenate([self._block, np.empty((more, self._dimensions), dtype=np.float32)])
            self._owners = np.concatenate([self._owners, np.empty(more, dtype=np.int64)])
        self._block[self._count] = vector
        self._owners[self._count] = owner
        self._rows_of.setdefault(owner, []).append(self._count)
        self._count += 1
