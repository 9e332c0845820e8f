"""The cosines of a query with many vectors: all of them known, or estimated from a bit for each number of a vector."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memory_mcp.services.search import sign_bits
from memory_mcp.services.search.ranking import MEAN_SHARE, CosineStatistics
from memory_mcp.services.search.vectors import Bits, Floats, Numbers

MIN_CANDIDATES = 4096  # whose cosines are computed, of those that are estimated to be the nearest
CANDIDATES_SHARE = 50  # at least one of so many vectors is a candidate
MAX_SAMPLED_FOR_MEAN = 512  # vectors whose mean stands for that of all
SAMPLED = 4096  # vectors whose cosines give the mean and deviation of all


@dataclass(frozen=True)
class Cosines(ABC):
    """A memory has a row for each of its chunks."""

    owners: Numbers  # the memory of each row
    rows_of: Mapping[int, Sequence[int]]

    @abstractmethod
    def at(self, rows: Numbers) -> Floats:
        """The cosines of these rows."""

    @abstractmethod
    def candidates(self, wanted: int, rows: Numbers | None) -> Numbers:
        """Some rows, in order, that include the `wanted` nearest; only from these rows, if any are given."""

    @abstractmethod
    def statistics(self, rows: Numbers | None, background: Floats) -> CosineStatistics:
        """Of these rows, or of all, and of some unrelated texts."""

    def at_rows(self, rows: Sequence[int]) -> list[float]:
        values: list[float] = self.at(np.array(rows, dtype=np.int64)).tolist()
        return values

    def of(self, owners: Iterable[int]) -> dict[int, tuple[float, int]]:
        """For each of these memories that has a vector: the cosine and the number of its nearest chunk."""
        known = [(owner, rows) for owner in owners if (rows := self.rows_of.get(owner))]
        values = iter(self.at_rows([row for _, rows in known for row in rows]))
        return {owner: _nearest_chunk([next(values) for _ in rows]) for owner, rows in known}

    def nearest(self, limit: int, rows: Numbers | None = None, min_cosine: float | None = None) -> list[int]:
        """The memories nearest to the query, nearest first; only from these rows, if any are given."""
        count = len(self.owners) if rows is None else len(rows)
        wanted = limit
        while True:
            wanted *= 4  # more than the limit, since one memory may have many rows
            best = self.candidates(wanted, rows)
            values = self.at(best)
            order = np.argsort(-values, kind="stable")[:wanted]
            if min_cosine is not None:
                order = order[values[order] >= min_cosine]
            found = list(dict.fromkeys(self.owners[best[order]].tolist()))
            if len(found) >= limit or wanted >= count or len(order) < wanted:
                return found[:limit]

    def row(self, owner: int, chunk: int) -> int:
        return self.rows_of[owner][chunk]

    def sample(self, rows: Numbers | None) -> Numbers:
        """Some of these rows, or of all, that stand for them."""
        count = len(self.owners) if rows is None else len(rows)
        step = max(1, -(-count // MAX_SAMPLED_FOR_MEAN))
        return np.arange(0, count, step) if rows is None else rows[::step]

    def rows_allowed(self, flags: bytes) -> Numbers:
        """The rows of the memories whose byte is set; the last byte is for all memories beyond."""
        bytes_of = np.frombuffer(flags, dtype=np.uint8)
        return np.flatnonzero(bytes_of.take(self.owners, mode="clip"))

    def rows_among(self, owners: Iterable[int]) -> Numbers:
        """The rows of these memories."""
        return np.array([row for owner in owners for row in self.rows_of.get(owner, ())], dtype=np.int64)


@dataclass(frozen=True)
class KnownCosines(Cosines):
    values: Floats

    @classmethod
    def sorted(cls, owners: Numbers, values: Floats) -> "KnownCosines":
        """Of rows in the order of their owners and chunks."""
        return cls(owners, SortedRows(owners), values)

    def at(self, rows: Numbers) -> Floats:
        return self.values[rows]

    def candidates(self, wanted: int, rows: Numbers | None) -> Numbers:
        values = self.values if rows is None else self.values[rows]
        best = _best(values, wanted)
        return best if rows is None else rows[best]

    def statistics(self, rows: Numbers | None, background: Floats) -> CosineStatistics:
        return CosineStatistics.of(self.values if rows is None else self.values[rows], background)


@dataclass(frozen=True)
class EstimatedCosines(Cosines):
    """Only the cosines that are needed are computed. The others are estimated: the more bits of two vectors differ, the
    smaller their cosine."""

    query: Floats
    vectors: Floats
    bits: Bits
    query_bits: Bits

    @cached_property
    def _differing(self) -> NDArray[np.uint16]:
        return sign_bits.differing(self.bits, self.query_bits, len(self.owners))

    def at(self, rows: Numbers) -> Floats:
        values: Floats = self.vectors[rows] @ self.query
        return values

    def candidates(self, wanted: int, rows: Numbers | None) -> Numbers:
        differing = self._differing if rows is None else self._differing[rows]
        least = max(2 * wanted, MIN_CANDIDATES, len(differing) // CANDIDATES_SHARE)
        if len(differing) <= least:
            return np.arange(len(differing)) if rows is None else rows
        best = np.flatnonzero(differing <= sign_bits.lowest(differing, least))
        return best if rows is None else rows[best]

    def statistics(self, rows: Numbers | None, background: Floats) -> CosineStatistics:
        """From the nearest rows and from every n-th of the others. What these miss of the mean and of the deviation is
        known from the bits of all."""
        differing = self._differing if rows is None else self._differing[rows]
        is_near = differing <= sign_bits.lowest(differing, SAMPLED)
        near, others = np.flatnonzero(is_near), np.flatnonzero(~is_near)
        chosen = others[:: max(1, len(others) // SAMPLED)]
        values = self.at(near if rows is None else rows[near])
        sampled = self.at(chosen if rows is None else rows[chosen])
        mean, variance = _estimate(sampled, differing[chosen], differing[others]) if len(others) else (0.0, 0.0)
        total = float(values.sum(dtype=np.float64)) + len(others) * mean
        squares = float(values @ values) + len(others) * (variance + mean**2)
        return CosineStatistics.of_sums(len(differing), total, squares, background)


def _estimate(sampled: Floats, differing: NDArray[np.uint16], all_differing: NDArray[np.uint16]) -> tuple[float, float]:
    """The mean and the variance of cosines, of which some are known, with the bits in which these and all differ."""
    bits, values = differing.astype(np.float64), sampled.astype(np.float64)
    spread = float(bits.var())
    slope = float(((bits - bits.mean()) * values).mean()) / spread if spread else 0.0
    mean = float(values.mean()) + slope * float(all_differing.mean() - bits.mean())
    return mean, float((values - slope * bits).var()) + slope**2 * float(all_differing.var())


class SortedRows(Mapping[int, Sequence[int]]):
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


def _nearest_chunk(cosines: Sequence[float]) -> tuple[float, int]:
    chunk = max(range(len(cosines)), key=cosines.__getitem__)
    return cosines[chunk], chunk


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


def centred(
    query: Floats, usual: CosineStatistics, sampled: Floats, background: Floats
) -> tuple[Floats, CosineStatistics]:
    """A query without half of what all texts have in common, and how near texts usually are to it. A text that is a
    little near to every query, such as an empty phrase, comes later by that.

    `usual`: the statistics of the cosines of all texts. `sampled`: the vectors of some of these texts. `background`:
    the vectors of unrelated texts, so that the mean of few texts is not theirs alone.
    """
    vector = query - np.float32(MEAN_SHARE) * np.concatenate((sampled, background)).mean(axis=0, dtype=np.float32)
    before, after = (CosineStatistics.of(sampled @ one, background @ one) for one in (query, vector))
    return vector, usual.adjusted(before, after)
