"""Cosine similarity over packed float32 vectors, exact, in process."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def unpack(blob: bytes) -> Floats:
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


class PackedVectors:
    """Vectors by id, unit length, in one block of memory. Not thread-safe: whoever owns it locks."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._block: Floats = np.empty((64, dimensions), dtype=np.float32)
        self._ids: list[int] = []
        self._row_of: dict[int, int] = {}

    def put(self, id_: int, blob: bytes) -> None:
        """Add or replace. What is not a vector of this length belongs to another model and is left out."""
        if len(blob) != 4 * self._dimensions or not np.isfinite(vector := unpack(blob)).all():
            self.drop(id_)
            return
        row = self._row(id_)  # may replace the block
        self._block[row] = _unit(vector)

    def drop(self, id_: int) -> None:
        row = self._row_of.pop(id_, None)
        if row is None:
            return
        last = self._ids.pop()
        if last != id_:  # the last vector moves into the gap
            self._block[row] = self._block[len(self._ids)]
            self._ids[row] = last
            self._row_of[last] = row

    def cosines(self, query: bytes) -> dict[int, float]:
        """The cosine of every vector with the query's."""
        found = self._block[: len(self._ids)] @ _unit(unpack(query))
        return dict(zip(self._ids, found.tolist(), strict=True))

    def _row(self, id_: int) -> int:
        if id_ not in self._row_of:
            if len(self._ids) == len(self._block):
                self._block = np.concatenate([self._block, np.empty_like(self._block)])
            self._row_of[id_] = len(self._ids)
            self._ids.append(id_)
        return self._row_of[id_]


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length else vector
