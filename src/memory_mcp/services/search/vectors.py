"""Vectors of float32, as they are stored and compared."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory_mcp.engines.transactions import Packed

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Bits = NDArray[np.uint64]


def unpack(blob: bytes) -> Floats:
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def pack(vector: Floats) -> Packed:
    return Packed(vector.astype("<f4").tobytes())


def unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector / np.float32(length) if length else vector


def alike(one: Sequence[bytes], other: Sequence[bytes]) -> float:
    """The lowest cosine of two corresponding chunks, which are unit vectors. 0 if the numbers of chunks differ."""
    if len(one) != len(other) or not one:
        return 0.0
    return float(np.einsum("ij,ij->i", np.stack([*map(unpack, one)]), np.stack([*map(unpack, other)])).min())
