"""What exact vector search costs as notes grow, next to what takes its place above 100,000: `make bench-vectors`.

With --locomo, the notes are the turns of LoCoMo and, as filler, vectors mixed from them; the queries are its questions.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread for both, as a server that shares two cores has

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import growth
from benchmarks.recall import read_conversations
from memory_mcp.app import embedding_options
from memory_mcp.services.embedding.builtin import Builtin
from memory_mcp.services.search import sign_bits
from memory_mcp.services.search.cosines import EstimatedCosines, KnownCosines, SortedRows
from memory_mcp.services.search.ranking import CosineStatistics
from memory_mcp.services.search.vectors import Bits, Floats
from memory_mcp.settings import Settings

DIMENSIONS = 384
TOP = 10
QUERIES = 30
LOCOMO_QUERIES = 100
BACKGROUND = np.full(8, 0.3, dtype=np.float32)  # of unrelated texts
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SEED = 1

Found = tuple[list[int], CosineStatistics]
Search = Callable[[Floats], Found]


@dataclass(frozen=True)
class Measured:
    milliseconds: float  # of CPU for one question
    recall: float  # of the exact top 10
    off: float  # the largest error of the mean (in deviations) or of the deviation (as a share) of all cosines
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


def bits_of(vectors: Floats, mean: Floats) -> Bits:
    parts = [sign_bits.columns(vectors[start : start + 50_000], mean) for start in range(0, len(vectors), 50_000)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def exact(vectors: Floats) -> Search:
    owners = np.arange(len(vectors))

    def search(query: Floats) -> Found:
        cosines = KnownCosines(owners, SortedRows(owners), vectors @ query)
        return cosines.nearest(TOP), cosines.statistics(None, BACKGROUND)

    return search


def by_bits(vectors: Floats, bits: Bits, mean: Floats) -> Search:
    """The nearest in bits, then exactly among those."""
    owners = np.arange(len(vectors))

    def search(query: Floats) -> Found:
        query_bits = sign_bits.columns(query[None], mean)[:, 0]
        cosines = EstimatedCosines(owners, SortedRows(owners), query, vectors, bits, query_bits)
        return cosines.nearest(TOP), cosines.statistics(None, BACKGROUND)

    return search


def measured(search: Search, truth: Search, queries: Floats, megabytes: float) -> Measured:
    search(queries[0])  # warm
    started = time.process_time()
    found = [search(query) for query in queries]
    taken = time.process_time() - started
    true = [truth(query) for query in queries]
    shared = sum(len({*one} & {*other}) for (one, _), (other, _) in zip(found, true, strict=True))
    pairs = [(one, other) for (_, one), (_, other) in zip(found, true, strict=True)]
    off = max(max(abs(one.z(other.mean)), abs(one.deviation / other.deviation - 1)) for one, other in pairs)
    return Measured(1000 * taken / len(queries), shared / TOP / len(queries), off, megabytes)


def rows(sizes: Sequence[int], data: Callable[[int], tuple[Floats, Floats]]) -> Iterator[str]:
    for size in sizes:
        vectors, queries = data(size)
        mean = vectors.mean(axis=0)
        bits = bits_of(vectors, mean)
        one = measured(exact(vectors), exact(vectors), queries, vectors.nbytes / 1e6)
        other = measured(by_bits(vectors, bits, mean), exact(vectors), queries, bits.nbytes / 1e6)
        yield (
            f"| {size:,} | {one.milliseconds:.2f} | {one.megabytes:.0f} | {other.milliseconds:.2f} | "
            f"{other.milliseconds / one.milliseconds:.2f} | {other.recall:.3f} | {other.off:.3f} | "
            f"{other.megabytes:.0f} |"
        )


def clumps(size: int) -> tuple[Floats, Floats]:
    drawing = np.random.default_rng(SEED)
    vectors = texts_like(size, drawing)
    chosen = vectors[drawing.integers(0, size, QUERIES)]
    queries = chosen + 0.05 * drawing.standard_normal(chosen.shape, dtype=np.float32)
    return vectors, queries / np.linalg.norm(queries, axis=1, keepdims=True)


def conversations(path: Path, size: int) -> tuple[Floats, Floats]:
    """Turns of LoCoMo, and others mixed from them."""
    embedder = Builtin(embedding_options(Settings()).model_folder)
    questions = [question.text for one in read_conversations(path) for question in one.questions]
    chosen = random.Random(SEED).sample(questions, LOCOMO_QUERIES)
    return growth.mixed_vectors(growth.pool(growth.CACHE, path), size), np.stack(
        [embedder.query(question) for question in chosen]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Only up to 100,000.")
    parser.add_argument("--locomo", type=Path, help="locomo10.json: real vectors instead of random ones")
    options = parser.parse_args()
    data = partial(conversations, options.locomo) if options.locomo else clumps
    print("| notes | exact, CPU ms | MB | with bits, CPU ms | ratio | recall | statistics off | MB more |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for row in rows(SIZES[:3] if options.quick else SIZES, data):
        print(row, flush=True)


if __name__ == "__main__":
    main()
