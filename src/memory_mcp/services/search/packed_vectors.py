"""The vectors of a user, in arrays: cosine similarity in process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory_mcp.services.search import sign_bits
from memory_mcp.services.search.cosines import Cosines, EstimatedCosines, KnownCosines, SortedRows
from memory_mcp.services.search.vectors import Bits, Floats, Numbers

MAX_DEVIATION = 0.01  # of the length of a unit vector from 1


@dataclass(frozen=True)
class VectorArrays:
    """Arrays with a row for each chunk of a memory, and with rows to spare. They may be a private view of a file."""

    owners: Numbers  # the memory of each row
    vectors: Floats
    count: int  # rows in use
    bits: Bits | None = None  # of vectors that are too many to be compared one by one
    mean: Floats | None = None  # that the bits are relative to
    former_owners: Numbers | None = None  # as they were before any change: sorted

    def grown(self, rows: int) -> "VectorArrays":
        """A copy in memory, with as many rows."""
        owners, vectors = np.empty(rows, np.int64), np.empty((rows, self.vectors.shape[1]), np.float32)
        owners[: self.count], vectors[: self.count] = self.owners[: self.count], self.vectors[: self.count]
        bits = None
        if self.bits is not None:
            bits = np.empty((len(self.bits), rows), np.uint64)
            bits[:, : self.count] = self.bits[:, : self.count]
        return replace(self, owners=owners, vectors=vectors, bits=bits)


class PackedVectors:
    """Unit vectors of memories. Not thread-safe: the owner locks."""

    def __init__(self, arrays: VectorArrays) -> None:
        self._arrays = arrays
        self._count = arrays.count
        self._rows_of = _Rows({}, arrays.former_owners)

    @classmethod
    def empty(cls, dimensions: int) -> "PackedVectors":
        return cls(VectorArrays(np.empty(64, dtype=np.int64), np.empty((64, dimensions), dtype=np.float32), 0))

    @property
    def size(self) -> int:
        """In bytes."""
        return self._arrays.vectors.nbytes

    def put_all(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Set the vectors of many memories, one row for each chunk. A memory with a vector that does not fit is left
        out."""
        for owner in dict.fromkeys(owner for owner, _ in rows):
            self.drop(owner)
        owners, vectors = unit_rows(rows, self._arrays.vectors.shape[1])
        self._append(owners, vectors)

    def drop(self, owner: int) -> None:
        owners, vectors, bits = self._arrays.owners, self._arrays.vectors, self._arrays.bits
        for row in sorted(self._rows_of.get(owner, ()), reverse=True):
            self._count -= 1
            last = self._count
            if row != last:  # the last vector moves into the gap
                vectors[row] = vectors[last]
                if bits is not None:
                    bits[:, row] = bits[:, last]
                moved = int(owners[last])
                owners[row] = moved
                rows = list(self._rows_of[moved])
                rows[rows.index(last)] = row
                self._rows_of.moved[moved] = rows
        self._rows_of.forget(owner)

    def cosines(self, query: Floats) -> Cosines:
        """The cosine of every vector with the query. Valid until the vectors change."""
        return self.cosines_of([query])[0]

    def cosines_of(self, queries: Sequence[Floats]) -> list[Cosines]:
        """The same for each query, in one product."""
        arrays, owners = self._arrays, self._arrays.owners[: self._count]
        vectors = arrays.vectors[: self._count]
        if arrays.bits is not None and arrays.mean is not None:
            queries_bits = sign_bits.columns(np.stack(queries), arrays.mean).T
            return [
                EstimatedCosines(owners, self._rows_of, query, vectors, arrays.bits, query_bits)
                for query, query_bits in zip(queries, queries_bits, strict=True)
            ]
        products = [vectors @ queries[0]] if len(queries) == 1 else np.stack(queries) @ vectors.T
        return [KnownCosines(owners, self._rows_of, values) for values in products]

    def at(self, rows: Numbers) -> Floats:
        """The vectors of these rows of the cosines."""
        return self._arrays.vectors[rows]

    def _append(self, owners: Sequence[int], vectors: Floats) -> None:
        start, end = self._count, self._count + len(owners)
        if end > len(self._arrays.owners):
            arrays = replace(self._arrays, count=self._count)
            self._arrays = arrays.grown(max(end, len(arrays.owners) * 3 // 2))  # unused pages cost nothing
        arrays = self._arrays
        arrays.vectors[start:end] = vectors
        arrays.owners[start:end] = owners
        if arrays.bits is not None and arrays.mean is not None:
            arrays.bits[:, start:end] = sign_bits.columns(vectors, arrays.mean)
        for row, owner in enumerate(owners, start):
            self._rows_of.moved.setdefault(owner, []).append(row)
        self._count = end


class _Rows(Mapping[int, Sequence[int]]):
    """The rows of each memory: of those that have moved, and of all others by their sorted owners."""

    def __init__(self, moved: dict[int, list[int]], owners: Numbers | None) -> None:
        self.moved = moved  # no rows: the memory has no vectors any more
        self._others = None if owners is None else SortedRows(owners)

    def __getitem__(self, owner: int) -> Sequence[int]:
        if (rows := self.moved.get(owner)) is None and self._others is not None:
            return self._others[owner]
        if not rows:
            raise KeyError(owner)
        return rows

    def __iter__(self) -> Iterator[int]:
        yield from (owner for owner, rows in self.moved.items() if rows)
        if self._others is not None:
            yield from (owner for owner in self._others if owner not in self.moved)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def forget(self, owner: int) -> None:
        if self._others is None:
            self.moved.pop(owner, None)
        else:
            self.moved[owner] = []


def unit_rows(rows: Sequence[tuple[int, bytes]], dimensions: int) -> tuple[list[int], Floats]:
    """Vectors of length 1, and the memory of each. A vector of another number of dimensions belongs to another model:
    its memory is left out, as is one with numbers that are not finite."""
    foreign = {owner for owner, blob in rows if len(blob) != 4 * dimensions}
    rows = [(owner, blob) for owner, blob in rows if owner not in foreign]
    vectors = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f4").reshape(-1, dimensions)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    endless = {rows[row][0] for row in np.flatnonzero(~np.isfinite(lengths)).tolist()}
    kept = [row for row, (owner, _) in enumerate(rows) if owner not in endless]
    units = vectors[kept] / np.where(lengths == 0, 1, lengths)[kept, None]
    return [rows[row][0] for row in kept], units.astype(np.float32)


def are_units(vectors: Floats) -> bool:
    """Whether these can be what was packed: each of length 1, or 0."""
    lengths = np.einsum("ij,ij->i", vectors, vectors)
    return bool(np.all((np.abs(lengths - 1) <= MAX_DEVIATION) | (lengths == 0)))
