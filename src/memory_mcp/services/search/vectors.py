"""Cosine similarity over packed float32 vectors, exact, in process."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_mcp.engines.transactions import Packed

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


def unpack(blob: bytes) -> Floats:
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def pack(vector: Floats) -> Packed:
    return Packed(vector.astype("<f4").tobytes())


def unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length else vector


@dataclass(frozen=True)
class Cosines:
    """The cosine of each row with a query. A memory has a row for each of its chunks."""

    owners: Numbers  # the memory of each row
    values: Floats
    rows_of: Mapping[int, Sequence[int]]

    @classmethod
    def sorted(cls, owners: Numbers, values: Floats) -> "Cosines":
        """Of rows in the order of their owners and chunks."""
        return cls(owners, values, _SortedRows(owners))

    def of(self, owners: Iterable[int]) -> dict[int, tuple[float, int]]:
        """For each of these memories that has a vector: the cosine and the number of its nearest chunk."""
        known = [(owner, self.rows_of[owner]) for owner in owners if owner in self.rows_of]
        firsts = self.values[[rows[0] for _, rows in known]].tolist()
        return {
            owner: (first, 0) if len(rows) == 1 else self._nearest_chunk(rows)
            for (owner, rows), first in zip(known, firsts, strict=True)
        }

    def _nearest_chunk(self, rows: Sequence[int]) -> tuple[float, int]:
        values = self.values[rows]
        chunk = int(values.argmax())
        return float(values[chunk]), chunk

    def nearest(self, limit: int, rows: Numbers | None = None) -> list[int]:
        """The memories nearest to the query, nearest first; only from these rows, if any are given."""
        values = self.values if rows is None else self.values[rows]
        wanted = limit
        while True:
            wanted *= 4  # more than the limit, since one memory may have many rows
            best = _best(values, wanted)
            order = best[np.argsort(-values[best], kind="stable")][:wanted]
            chosen = order if rows is None else rows[order]
            found = list(dict.fromkeys(self.owners[chosen].tolist()))
            if len(found) >= limit or wanted >= len(values):
                return found[:limit]

    def rows_allowed(self, flags: bytes) -> Numbers:
        """The rows of the memories whose byte is set; the last byte is for all memories beyond."""
        bytes_of = np.frombuffer(flags, dtype=np.uint8)
        return np.flatnonzero(bytes_of.take(self.owners, mode="clip"))

    def rows_among(self, owners: Iterable[int]) -> Numbers:
        """The rows of these memories."""
        return np.array([row for owner in owners for row in self.rows_of.get(owner, ())], dtype=np.int64)


class _SortedRows(Mapping[int, Sequence[int]]):
    """The rows of each memory, found when they are needed: of most memories they are not."""

    def __init__(self, owners: Numbers) -> None:
        self._owners = owners

    def __getitem__(self, owner: int) -> Sequence[int]:
        rows = range(*(int(self._owners.searchsorted(owner, side)) for side in ("left", "right")))
        if not rows:
            raise KeyError(owner)
        return rows

    def __iter__(self) -> Iterator[int]:
        return iter(np.unique(self._owners).tolist())

    def __len__(self) -> int:
        return len(np.unique(self._owners))


def alike(one: Sequence[bytes], other: Sequence[bytes]) -> float:
    """The lowest cosine of two corresponding chunks, which are unit vectors. 0 if the numbers of chunks differ."""
    if len(one) != len(other) or not one:
        return 0.0
    return float(np.einsum("ij,ij->i", np.stack([*map(unpack, one)]), np.stack([*map(unpack, other)])).min())


def _best(values: Floats, wanted: int) -> Numbers:
    """The rows of the highest values, and all rows equal to the lowest of these, in order."""
    if len(values) <= wanted:
        return np.arange(len(values))
    among = values
    if len(values) > 8 * wanted:  # partitioning only the highest few per cent is faster
        high = values[values >= values.mean() + 2 * values.std()]
        among = high if len(high) >= wanted else values
    lowest = np.partition(among, len(among) - wanted)[len(among) - wanted]
    return np.flatnonzero(values >= lowest)


class PackedVectors:
    """Unit vectors of memories, in one block of memory. Not thread-safe: the owner locks."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._block: Floats = np.empty((64, dimensions), dtype=np.float32)
        self._owners: Numbers = np.empty(64, dtype=np.int64)
        self._count = 0
        self._rows_of: dict[int, list[int]] = {}

    @property
    def size(self) -> int:
        """In bytes."""
        return self._block.nbytes

    def put_all(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Set the vectors of many memories, one row for each chunk. A vector of another length belongs to another
        model: its memory is left out."""
        for owner in dict.fromkeys(owner for owner, _ in rows):
            self.drop(owner)
        foreign = {owner for owner, blob in rows if len(blob) != 4 * self._dimensions}
        rows = [(owner, blob) for owner, blob in rows if owner not in foreign]
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f4").reshape(-1, self._dimensions)
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        endless = {rows[row][0] for row in np.flatnonzero(~np.isfinite(norms)).tolist()}
        kept = [row for row, (owner, _) in enumerate(rows) if owner not in endless]
        self._append([rows[row][0] for row in kept], vectors[kept] / np.where(norms == 0, 1, norms)[kept, None])

    def drop(self, owner: int) -> None:
        for row in sorted(self._rows_of.pop(owner, ()), reverse=True):
            self._count -= 1
            if row != self._count:  # the last vector moves into the gap
                self._block[row] = self._block[self._count]
                moved = self._owners[row] = self._owners[self._count]
                rows = self._rows_of[int(moved)]
                rows[rows.index(self._count)] = row

    def cosines(self, query: Floats) -> Cosines:
        """The cosine of every vector with the query. Valid until the vectors change."""
        return Cosines(self._owners[: self._count], self._block[: self._count] @ query, self._rows_of)

    def cosines_of(self, queries: Sequence[Floats]) -> list[Cosines]:
        """The same for each query, in one product."""
        if len(queries) == 1:
            return [self.cosines(queries[0])]
        products = np.stack(queries) @ self._block[: self._count].T
        return [Cosines(self._owners[: self._count], values, self._rows_of) for values in products]

    def _append(self, owners: Sequence[int], vectors: NDArray[np.floating]) -> None:
        start, end = self._count, self._count + len(owners)
        if end > len(self._block):
            self._grow(max(end, len(self._block) * 3 // 2))
        self._block[start:end] = vectors
        self._owners[start:end] = owners
        for row, owner in enumerate(owners, start):
            self._rows_of.setdefault(owner, []).append(row)
        self._count = end

    def _grow(self, rows: int) -> None:
        block, owners = self._block, self._owners
        self._block = np.empty((rows, self._dimensions), dtype=np.float32)  # unused pages cost nothing
        self._owners = np.empty(rows, dtype=np.int64)
        self._block[: self._count] = block[: self._count]
        self._owners[: self._count] = owners[: self._count]
