"""What exact vector search costs as notes grow, and what would take its place: `make bench-vectors`."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread for both, as a server that shares two cores has

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_mcp.services.search.vectors import Floats

DIMENSIONS = 384
TOP = 10
CANDIDATES = 800  # that the sign bits choose for exact scoring
QUERIES = 30
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SEED = 1

Bits = NDArray[np.uint64]
Search = Callable[[Floats], NDArray[np.int64]]


@dataclass(frozen=True)
class Measured:
    milliseconds: float  # of CPU for one question
    recall: float  # of the exact top 10
    megabytes: float


def texts_like(count: int, drawing: np.random.Generator) -> Floats:
    """Unit vectors in a few thousand clumps, as those of texts are."""
    centres = drawing.standard_normal((2_000, DIMENSIONS), dtype=np.float32)
    vectors = np.empty((count, DIMENSIONS), dtype=np.float32)
    for start in range(0, count, 100_000):
        part = vectors[start : start + 100_000]
        part[:] = centres[drawing.integers(0, len(centres), len(part))]
        part += 0.8 * drawing.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def sign_bits(vectors: Floats) -> Bits:
    return np.packbits(vectors > 0, axis=-1).view(np.uint64)


def exact(vectors: Floats) -> Search:
    def search(query: Floats) -> NDArray[np.int64]:
        return _best(vectors @ query, TOP)

    return search


def by_bits(vectors: Floats, bits: Bits) -> Search:
    """The nearest in sign bits, then exactly among those."""

    def search(query: Floats) -> NDArray[np.int64]:
        differing = np.bitwise_count(bits ^ sign_bits(query)).sum(axis=1, dtype=np.int16)
        candidates = _best(-differing, CANDIDATES)
        return candidates[_best(vectors[candidates] @ query, TOP)]

    return search


def _best(scores: NDArray[np.generic], count: int) -> NDArray[np.int64]:
    if len(scores) <= count:
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - count)[-count:]


def measured(search: Search, truth: Search, queries: Floats, megabytes: float) -> Measured:
    search(queries[0])  # warm
    started = time.process_time()
    found = [search(query) for query in queries]
    taken = time.process_time() - started
    shared = [len(np.intersect1d(some, truth(query))) for some, query in zip(found, queries, strict=True)]
    return Measured(1000 * taken / len(queries), sum(shared) / sum(map(len, found)), megabytes)


def rows(sizes: tuple[int, ...]) -> Iterator[str]:
    drawing = np.random.default_rng(SEED)
    for size in sizes:
        vectors = texts_like(size, drawing)
        bits = sign_bits(vectors)
        chosen = vectors[drawing.integers(0, size, QUERIES)]
        queries = chosen + 0.05 * drawing.standard_normal(chosen.shape, dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        one = measured(exact(vectors), exact(vectors), queries, vectors.nbytes / 1e6)
        other = measured(by_bits(vectors, bits), exact(vectors), queries, bits.nbytes / 1e6)
        yield (
            f"| {size:,} | {one.milliseconds:.2f} | {one.megabytes:.0f} | {other.milliseconds:.2f} | "
            f"{other.milliseconds / one.milliseconds:.2f} | {other.recall:.3f} | {other.megabytes:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Only up to 100,000.")
    sizes = SIZES[:3] if parser.parse_args().quick else SIZES
    print("| notes | exact, CPU ms | MB | bits + rescoring, CPU ms | ratio | recall | MB more |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for row in rows(sizes):
        print(row, flush=True)


if __name__ == "__main__":
    main()
