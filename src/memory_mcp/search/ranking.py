"""Scores as pure functions: every one in [0, 1], higher is better."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_mcp.search.vectors import Floats

BM25_SHARE = 0.4  # the vault spec's blend
COSINE_SHARE = 0.6

COVERED_SHARE = 0.85  # how a lexical score is made up; together below 1, which is kept for an exact match
BEST_SHARE = 0.10  # more of bm25 finds less: docs/decisions/0002-relevance.md

COMMON = 0.05  # a word that stands in more memories than this says little
COMMON_FROM = 1000  # memories from which on such a word is left out when rarer ones remain

COSINE_WEIGHT, LEXICAL_WEIGHT, IMPORTANCE_WEIGHT = 0.55, 0.35, 0.10  # the notes spec's blend

DEFAULT_IMPORTANCE = 0.5  # of a text that says nothing about its own

UNRELATED = 0.25  # the cosine part of a note that is as near to a question as any other
PER_Z = 0.06  # what each deviation above that adds
PER_CONTEXT_Z = 0.06  # and each of the note taken together with the one before it
RELATED = 1.0  # deviations from which on a vector alone brings a note into the running


@dataclass(frozen=True)
class CosineStatistics:
    """What cosines with a question usually are: a narrow band, another one for each question and model."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, notes: "Floats", background: "Floats") -> "CosineStatistics":
        """From the notes and, so that it can be told with a handful of them, some unrelated texts."""
        count = len(notes) + len(background)
        total = float(notes.sum(dtype=float) + background.sum(dtype=float))
        squares = float((notes @ notes) + (background @ background))
        mean = total / count
        return cls(mean, max(math.sqrt(max(0.0, squares / count - mean**2)), 0.01))

    def z(self, cosine: float) -> float:
        return (cosine - self.mean) / self.deviation


def cosine_part(own: float, context: float) -> float:
    """How near in meaning, in [0, 1], from the deviations of a note and of the note with the one before it."""
    return min(1.0, max(0.0, UNRELATED + PER_Z * own + PER_CONTEXT_Z * context))


def score(cosine: float | None, lexical_part: float | None, importance: float) -> float:
    """The notes spec's score. Parts that were not looked at leave their weight to the others."""
    parts = [(COSINE_WEIGHT, cosine), (LEXICAL_WEIGHT, lexical_part), (IMPORTANCE_WEIGHT, importance)]
    known = [(share, part) for share, part in parts if part is not None]
    return sum(share * part for share, part in known) / sum(share for share, _ in known)


def weight(documents: int, containing: int) -> float:
    """How much finding a word says: the rarer, the more. Never zero, also among a handful of memories, where
    FTS5's own measure is."""
    return math.log1p((documents - containing + 0.5) / (containing + 0.5))


def coverage(
    found: Iterable[int], documents: int, holders: Sequence[tuple[int, Mapping[int, float]]]
) -> dict[int, float]:
    """The share of a question that each memory found holds. `holders` are, for each of its words, how many memories
    hold it, and how far each of those found does.

    A word that nobody holds may be rare or mistyped; it counts as much as the others do on average.
    """
    weights = [weight(documents, count) for count, _ in holders if count]
    whole = sum(weights) / len(weights) * len(holders) if weights else 1.0
    shares = dict.fromkeys(found, 0.0)
    for count, held in holders:
        share = weight(documents, count) / whole if count else 0.0
        for id_, far in held.items():
            shares[id_] += far * share
    return shares


def lexical(covered: float, bm25: float, best: float) -> float:
    """How well words match: what is covered of the question, and bm25 next to the best match's."""
    return COVERED_SHARE * covered + BEST_SHARE * (bm25 / best if best > 0 else 1.0)


def blend(lexical_score: float, cosine: float) -> float:
    """The vault spec's relevance: 0.4 · words + 0.6 · cosine. A vector that points away counts as unrelated."""
    return BM25_SHARE * lexical_score + COSINE_SHARE * min(1.0, max(0.0, cosine))


def common_from(documents: int) -> int:
    """In how many memories a word must stand to count as common."""
    return int(documents * COMMON) + 1 if documents >= COMMON_FROM else documents + 1
