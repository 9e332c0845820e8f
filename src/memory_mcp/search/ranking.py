"""Scores as pure functions: every one in [0, 1], higher is better."""

import math
from collections.abc import Iterable, Sequence, Set

BM25_SHARE = 0.4  # the vault spec's blend
COSINE_SHARE = 0.6

COVERED_SHARE = 0.85  # how a lexical score is made up; together below 1, which is kept for an exact match
BEST_SHARE = 0.10  # more of bm25 finds less: docs/decisions/0002-relevance.md

COMMON = 0.05  # a word that stands in more memories than this says little
COMMON_FROM = 1000  # memories from which on such a word is left out when rarer ones remain


def weight(documents: int, containing: int) -> float:
    """How much finding a word says: the rarer, the more. Never zero, also among a handful of memories, where
    FTS5's own measure is."""
    return math.log1p((documents - containing + 0.5) / (containing + 0.5))


def coverage(found: Iterable[int], documents: int, holders: Sequence[Set[int]]) -> dict[int, float]:
    """The share of a question that each memory found holds. `holders` are the memories that hold each of its words.

    A word that nobody holds may be rare or mistyped; it counts as much as the others do on average.
    """
    weights = [weight(documents, len(ids)) for ids in holders if ids]
    whole = sum(weights) / len(weights) * len(holders) if weights else 1.0
    shares = dict.fromkeys(found, 0.0)
    for word, ids in zip(weights, filter(None, holders), strict=True):
        for id_ in shares.keys() & ids:
            shares[id_] += word / whole
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
