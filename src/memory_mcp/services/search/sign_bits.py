"""A bit for each number of a vector: whether it is above the mean of all vectors. Near vectors differ in few bits.

The bits are in columns: the first 64 bits of every vector, then the next 64. So a few operations on long arrays compare
a query with all vectors.
"""

import numpy as np
from numpy.typing import NDArray

from memory_mcp.services.search.vectors import Bits, Floats

ROWS_AT_ONCE = 16_384  # so that what is computed for them stays in the processor's cache


def words_per_vector(dimensions: int) -> int:
    """Of 64 bits each."""
    return -(-dimensions // 64)


def columns(vectors: Floats, mean: Floats) -> Bits:
    """The bits of some vectors, a column of words for each 64."""
    rows = np.packbits(vectors > mean, axis=1)
    padded = np.zeros((len(rows), 8 * words_per_vector(vectors.shape[1])), dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64).T


def differing(bits: Bits, query: Bits, count: int) -> NDArray[np.uint16]:
    """In how many bits each of the first `count` vectors differs from the query."""
    found = np.empty(count, dtype=np.uint16)
    for start in range(0, count, ROWS_AT_ONCE):
        part = found[start : start + ROWS_AT_ONCE]
        columns_of_part = bits[:, start : start + len(part)]
        part[:] = np.bitwise_count(columns_of_part[0] ^ query[0])
        for column, word in zip(columns_of_part[1:], query[1:], strict=True):
            part += np.bitwise_count(column ^ word)
    return found


def lowest(differing: NDArray[np.uint16], wanted: int) -> int:
    """The number of bits in which at least the `wanted` nearest vectors differ at most."""
    return int(np.searchsorted(np.bincount(differing).cumsum(), wanted))
