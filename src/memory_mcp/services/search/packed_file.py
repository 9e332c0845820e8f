"""A file of packed vectors: written once, then mapped into memory instead of packed at each start.

It is a cache of what a database holds. Readers get a private view: what they change stays in their memory. The file
itself is replaced as a whole, by a rename; only the vectors of deleted memories are overwritten in place.

    4,096 bytes   the header: a checksum and a JSON object
    then, each beginning at a multiple of 4,096 bytes:
    owners        an int64 for each row, sorted
    mean, bits    of a large file (sign_bits.py)
    vectors       float32

It ends with rows to spare, which take no place on the disk.
"""

import mmap
import os
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from memory_mcp.services.search import sign_bits
from memory_mcp.services.search.packed_header import Header, read_header
from memory_mcp.services.search.packed_vectors import VectorArrays, are_units, unit_rows
from memory_mcp.services.search.vectors import Numbers

SPARE_SHARE, MIN_SPARE = 4, 8192  # rows to spare: a quarter of all, but at least so many
MIN_ROWS_WITH_BITS = 100_001  # up to 100,000 vectors are compared one by one
ROWS_AT_ONCE = 4096
CHECKED_ROWS = 4096  # of the vectors of a large file; of others, all are checked


def map_file(path: Path) -> tuple[Header, VectorArrays] | None:
    """A private view of a file. None if there is none, or if it is damaged."""
    header = read_header(path)
    if header is None:
        return None
    try:
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            shared = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = _arrays(header, view, shared)
    except (OSError, ValueError):
        return None
    return (header, arrays) if _is_sound(header, arrays) else None


def is_sound(path: Path) -> bool:
    """Whether every vector of the file is what may have been written."""
    if (found := map_file(path)) is None:
        return False
    header, arrays = found
    starts = range(0, header.count, ROWS_AT_ONCE)
    return all(are_units(arrays.vectors[start : min(start + ROWS_AT_ONCE, header.count)]) for start in starts)


def _arrays(header: Header, view: mmap.mmap, shared: mmap.mmap) -> VectorArrays:
    def array(name: str, dtype: str, of: mmap.mmap = view) -> NDArray[Any]:
        offset, size = header.layout[name]
        return np.frombuffer(of, dtype=dtype, offset=offset, count=size // np.dtype(dtype).itemsize)

    return VectorArrays(
        owners=array("owners", "<i8"),
        vectors=array("vectors", "<f4").reshape(header.capacity, header.dimensions),
        count=header.count,
        bits=array("bits", "<u8").reshape(-1, header.capacity) if header.has_bits else None,
        mean=array("mean", "<f4") if header.has_bits else None,
        former_owners=array("owners", "<i8", shared)[: header.count],
    )


def _is_sound(header: Header, arrays: VectorArrays) -> bool:
    if zlib.crc32(arrays.owners[: header.count].tobytes()) != header.owners_checksum:
        return False
    step = max(1, header.count // CHECKED_ROWS) if header.has_bits else 1
    return are_units(arrays.vectors[: header.count : step])


class PackedFileWriter:
    """Writes the vectors of a database, in the order of their memories and chunks."""

    def __init__(self, file: BinaryIO, header: Header, count: int) -> None:
        """`count`: at least as many as there are."""
        spare = max(count // SPARE_SHARE, MIN_SPARE)
        self._file = file
        self._header = replace(header, capacity=count + spare, has_bits=count >= MIN_ROWS_WITH_BITS)
        self._owners: list[Numbers] = []
        self._count = 0
        self._sum = np.zeros(header.dimensions)
        file.truncate(self._header.file_size)

    def write(self, rows: list[tuple[int, bytes]]) -> None:
        """All chunks of some memories."""
        owners, vectors = unit_rows(rows, self._header.dimensions)
        offset, _ = self._header.layout["vectors"]
        self._file.seek(offset + 4 * self._header.dimensions * self._count)
        self._file.write(vectors.astype("<f4").tobytes())
        self._owners.append(np.array(owners, dtype="<i8"))
        self._sum += vectors.sum(axis=0, dtype=np.float64)
        self._count += len(owners)

    def finish(self) -> None:
        owners = np.concatenate([np.empty(0, dtype="<i8"), *self._owners]).tobytes()
        self._write_at(self._header.layout["owners"][0], owners)
        if self._header.has_bits:
            self._write_bits()
        header = replace(self._header, count=self._count, owners_checksum=zlib.crc32(owners))
        self._write_at(0, header.to_bytes())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write_bits(self) -> None:
        header = self._header
        mean = (self._sum / max(1, self._count)).astype("<f4")
        self._write_at(header.layout["mean"][0], mean.tobytes())
        bits = np.zeros((header.words_per_vector, self._count), dtype="<u8")
        self._file.seek(header.layout["vectors"][0])
        for start in range(0, self._count, ROWS_AT_ONCE):
            rows = min(ROWS_AT_ONCE, self._count - start)
            part = np.frombuffer(self._file.read(4 * header.dimensions * rows), dtype="<f4")
            bits[:, start : start + rows] = sign_bits.columns(part.reshape(rows, -1), mean)
        offset, _ = header.layout["bits"]
        for number, column in enumerate(bits):
            self._write_at(offset + 8 * header.capacity * number, column.tobytes())

    def _write_at(self, offset: int, data: bytes) -> None:
        self._file.seek(offset)
        self._file.write(data)


def overwrite(path: Path, header: Header, owners: Iterable[int]) -> None:
    """Replace the vectors and the bits of some memories by zeros."""
    with path.open("r+b") as file:
        file.seek(header.layout["owners"][0])
        known = np.frombuffer(file.read(8 * header.count), dtype="<i8")
        for owner in owners:
            first, end = (int(known.searchsorted(owner, side)) for side in ("left", "right"))
            _clear(file, header, first, end)
        file.flush()
        os.fsync(file.fileno())


def _clear(file: BinaryIO, header: Header, first: int, end: int) -> None:
    areas = [(header.layout["vectors"][0], 4 * header.dimensions)]
    if header.has_bits:
        offset, _ = header.layout["bits"]
        words = header.words_per_vector
        areas += [(offset + 8 * header.capacity * word, 8) for word in range(words)]
    for offset, size in areas:
        file.seek(offset + size * first)
        file.write(bytes(size * (end - first)))
