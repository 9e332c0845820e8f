"""Scores as pure functions: every one in [0, 1], higher is better."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_mcp.services.embedding import RelevanceFloor
    from memory_mcp.services.search.vectors import Floats

BM25_SHARE = 0.4  # the vault spec's blend
COSINE_SHARE = 0.6

COVERED_SHARE = 0.85  # of a lexical score; the shares add up to less than 1, which is reserved for an exact match
BEST_SHARE = 0.10  # a larger share finds less: docs/decisions/0002-relevance.md

MIN_COMMON_SHARE = 0.05  # of memories; a word in more of them is common
MIN_COMMON = 1000  # memories; a word in fewer is not common,
MAX_COMMON_SHARE = 0.20  # unless it is in more than this share of all
MIN_MEMORIES_FOR_COMMON = 1000  # with fewer memories, common words are not ignored

COSINE_WEIGHT, LEXICAL_WEIGHT, IMPORTANCE_WEIGHT = 0.55, 0.35, 0.10  # the notes spec's blend

DEFAULT_IMPORTANCE = 0.5  # of a text without one

UNRELATED = 0.25  # the cosine part of a note that is as near to a query as any other
PER_Z = 0.08  # added for each deviation above that
PER_CONTEXT_Z = 0.06  # added for each deviation of the note together with the one before it
PER_ANSWER_Z = 0.08  # the same, if the one before it is a question
QUESTION_REDUCTION = 0.10  # of the cosine part of a note that is a question, if the query is one
LABEL_GAIN = 0.05  # of the cosine part of a note that begins with a label which is in the query
MEAN_SHARE = 0.5  # of the mean of all vectors that is subtracted from the vector of a query
CONTEXT_WORD_WEIGHT = 2 / 3  # of a word that only the note before has, times its degree in the index
ANSWER_WORD_WEIGHT = 1.25  # the same, if that note is a question
SESSION_SHARE = 0.5  # of the distance to the best session that a note's score is reduced by
SESSION_HITS = 2  # the best of a session, whose mean says how well the session fits a query
MIN_RELATED_DEVIATIONS = 1.0  # with which a vector alone makes a note a candidate
MAX_CONTEXT_GAP = timedelta(minutes=30)  # between a text and the next one of its session, which it is the context of
MIN_COVERED = 0.3  # the share of a query that words alone must cover if no text is near enough in meaning


@dataclass(frozen=True)
class CosineStatistics:
    """Mean and deviation of the cosines with a query. They differ for each query and model."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, notes: "Floats", background: "Floats") -> "CosineStatistics":
        """From the notes and, so that a few notes are enough, some unrelated texts."""
        return cls.of_sums(len(notes), float(notes.sum(dtype=float)), float(notes @ notes), background)

    @classmethod
    def of_sums(cls, count: int, total: float, squares: float, background: "Floats") -> "CosineStatistics":
        """The same, from the sums of the notes' cosines and of their squares."""
        count += len(background)
        mean = (total + float(background.sum(dtype=float))) / count
        squares += float(background @ background)
        return cls(mean, max(math.sqrt(max(0.0, squares / count - mean**2)), 0.01))

    def adjusted(self, before: "CosineStatistics", after: "CosineStatistics") -> "CosineStatistics":
        """These statistics, shifted and scaled as those of a sample were from `before` to `after`."""
        return CosineStatistics(
            self.mean + after.mean - before.mean, self.deviation * after.deviation / before.deviation
        )

    def z(self, cosine: float) -> float:
        return (cosine - self.mean) / self.deviation


def closeness(floor: "RelevanceFloor", cosines: Iterable[float], background: "Floats") -> list[float]:
    """How near texts are to a query, comparable for all queries of a model: from their cosines, and from those of
    unrelated texts."""
    usual = floor.background_share * float(background.mean(dtype=float))
    return [cosine - usual for cosine in cosines]


def fits(floor: "RelevanceFloor", nearest: float, count: int, background: "Floats") -> bool:
    """Whether the nearest of `count` texts is related to a query at all. If not, search by meaning finds nothing."""
    wanted = floor.for_one_text + floor.per_log_count * math.log(min(max(1, count), floor.max_count))
    return closeness(floor, [nearest], background)[0] >= wanted


@dataclass(frozen=True)
class TextForm:
    """What the form of a note says about its rank."""

    is_answer: bool = False  # the note before it is a question
    are_both_questions: bool = False  # the note and the query
    is_labelled: bool = False  # it begins with a label which is in the query

    @property
    def gain(self) -> float:
        """Of the cosine part; negative for a note that comes later."""
        reduction = QUESTION_REDUCTION if self.are_both_questions else 0.0
        return (LABEL_GAIN if self.is_labelled else 0.0) - reduction


PLAIN_FORM = TextForm()


def cosine_part(own: float, context: float, form: TextForm = PLAIN_FORM) -> float:
    """Nearness in meaning, in [0, 1], from the deviations of a note and of the note with the one before it."""
    per_context = _per_context(is_answer=form.is_answer)
    return min(1.0, max(0.0, UNRELATED + PER_Z * own + per_context * context + form.gain))


def covered_with_context(covered: float, by_context: float, *, is_answer: bool) -> float:
    """The share of a query that a note covers. `by_context` of it is covered by words that only the note before has."""
    return min(1.0, covered + by_context * (context_word_weight(is_answer=is_answer) - 1))


def context_word_weight(*, is_answer: bool) -> float:
    """The weight of a word that only the text before has, relative to its degree in the index."""
    return ANSWER_WORD_WEIGHT if is_answer else CONTEXT_WORD_WEIGHT


def context_cosine(own: float, context: float, *, is_answer: bool) -> float:
    """The cosine part of a text with its context, from that of the text alone and that of the text before it."""
    per_context = _per_context(is_answer=is_answer)
    share = per_context / (PER_Z + per_context) / 2  # both together are half the text itself
    return own + share * (context - own)


def _per_context(*, is_answer: bool) -> float:
    return PER_ANSWER_Z if is_answer else PER_CONTEXT_Z


def session_distances(scores: Mapping[int, float], sessions: Mapping[int, str]) -> dict[int, float]:
    """How much less the session of each note fits a query than the best session. A note that is not in `sessions` is
    one by itself."""
    of_session: dict[int | str, list[float]] = {}
    for seq, one in scores.items():
        of_session.setdefault(sessions.get(seq, seq), []).append(one)
    session_scores = {session: statistics.fmean(sorted(ones)[-SESSION_HITS:]) for session, ones in of_session.items()}
    best = max(session_scores.values(), default=0.0)
    return {seq: best - session_scores[sessions.get(seq, seq)] for seq in scores}


def cosine_in_session(cosine: float, distance: float) -> float:
    """The cosine part of a note whose session is this far from the best one."""
    return max(0.0, cosine - SESSION_SHARE / COSINE_WEIGHT * distance)


def score(cosine: float | None, lexical_part: float | None, importance: float) -> float:
    """The notes spec's score. The weight of a missing part goes to the others."""
    parts = [(COSINE_WEIGHT, cosine), (LEXICAL_WEIGHT, lexical_part), (IMPORTANCE_WEIGHT, importance)]
    known = [(share, part) for share, part in parts if part is not None]
    return sum(share * part for share, part in known) / sum(share for share, _ in known)


def weight(documents: int, containing: int) -> float:
    """The weight of a word: the rarer, the higher. Never zero, unlike FTS5's own measure for a few memories."""
    return math.log1p((documents - containing + 0.5) / (containing + 0.5))


def coverage(
    found: Iterable[int], documents: int, holders: Sequence[tuple[int, Mapping[int, float]]]
) -> dict[int, float]:
    """The share of a query that each found memory contains. `holders`: for each word of the query, how many memories
    contain it, and to what degree each found memory does.

    A word that no memory contains may be rare or mistyped; it counts as much as the average of the others.
    """
    weights = [weight(documents, count) for count, _ in holders if count]
    whole = sum(weights) / len(weights) * len(holders) if weights else 1.0
    shares = dict.fromkeys(found, 0.0)
    for count, held in holders:
        share = weight(documents, count) / whole if count else 0.0
        for id_, degree in held.items():
            shares[id_] += degree * share
    return shares


def lexical(covered: float, bm25: float, best: float) -> float:
    """How well words match: the covered share of the query, and bm25 relative to the best match."""
    return COVERED_SHARE * covered + BEST_SHARE * (bm25 / best if best > 0 else 1.0)


def blend(lexical_score: float, cosine: float) -> float:
    """The vault spec's relevance: 0.4 · words + 0.6 · cosine. A negative cosine counts as unrelated."""
    return BM25_SHARE * lexical_score + COSINE_SHARE * min(1.0, max(0.0, cosine))


def common_from(documents: int) -> int:
    """The number of memories from which on a word is common."""
    if documents < MIN_MEMORIES_FOR_COMMON:
        return documents + 1
    return int(max(documents * MIN_COMMON_SHARE, min(documents * MAX_COMMON_SHARE, MIN_COMMON))) + 1
