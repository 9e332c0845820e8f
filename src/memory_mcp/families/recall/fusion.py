"""The matches of all families in one order: by how well each fits the query, and by its session."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from memory_mcp.clock import instant
from memory_mcp.families.texts import Match
from memory_mcp.services.search import ranking
from memory_mcp.services.search.questions import is_question
from memory_mcp.services.search_index.tables import CONTEXT_DEGREE

RANK_SHARE = 0.1  # of a score, for the rank in its family; the rest is for the match
ASSUMED_COSINE = 0.25  # added to the cosine part if all words match


@dataclass(frozen=True)
class RankedMatch:
    family: str
    match: Match
    score: float


@dataclass(frozen=True)
class _Scored:
    """A match among those of all families."""

    family: str
    match: Match
    score: float
    cosine: float | None  # None: no match was compared by its meaning
    lexical: float


def fused(found: Mapping[str, Sequence[Match]]) -> list[RankedMatch]:
    """The scores of families are mostly comparable; a family's own order counts a little, so that its first matches
    come before the long tail of another family."""
    scored = list(_scored(found))
    scored = _near_best_session(_with_texts_before(scored))
    scores = {one.match.ref: one.score for one in scored}
    ranked = [
        RankedMatch(one.family, one.match, round(min(one.score, scores.get(one.match.superseded_by or "", 1.0)), 6))
        for one in scored
    ]
    return sorted(ranked, key=lambda one: (-one.score, one.match.superseded_by is not None, one.family, one.match.ref))


def _scored(found: Mapping[str, Sequence[Match]]) -> Iterator[_Scored]:
    by_meaning = any(match.cosine is not None for matches in found.values() for match in matches)
    for family, matches in found.items():
        for rank, match in enumerate(matches):
            cosine = _cosine(match) if by_meaning else None
            score = (1 - RANK_SHARE) * _score(match, cosine) + RANK_SHARE / (rank + 1)
            yield _Scored(family, match, score, cosine, match.lexical or 0.0)


def _cosine(match: Match) -> float:
    """If other matches have vectors, one without gets an assumed cosine from its words, so that it has no advantage."""
    return ranking.UNRELATED + ASSUMED_COSINE * (match.lexical or 0.0) if match.cosine is None else match.cosine


def _score(match: Match, cosine: float | None) -> float:
    if match.cosine is not None or cosine is None:
        return match.score
    return (1 - ranking.COSINE_WEIGHT) * match.score + ranking.COSINE_WEIGHT * cosine


def _with_texts_before(scored: Sequence[_Scored]) -> list[_Scored]:
    """A text that answers the one before it need not repeat its words: what the same session wrote just before counts
    as the context of a note does, as far as it matches itself."""
    before = {place: scored[earlier] for place, earlier in _before(scored).items()}
    return [
        _with(one, before[place]) if place in before and not _is_counted(one, before[place]) else one
        for place, one in enumerate(scored)
    ]


def _is_counted(one: _Scored, before: _Scored) -> bool:
    """Whether the family of both has counted the text before already."""
    return one.match.has_context and one.family == before.family


def _with(one: _Scored, before: _Scored) -> _Scored:
    """As in notes: a part of the cosine is for both texts together, and a word of the text before counts less."""
    is_answer = is_question(before.match.snippet)
    degree = CONTEXT_DEGREE * ranking.context_word_weight(is_answer=is_answer)
    lexical = one.lexical + degree * before.lexical * (1 - one.lexical)
    if one.cosine is None or before.cosine is None:
        weight = ranking.LEXICAL_WEIGHT / (1 - ranking.COSINE_WEIGHT)
        return replace(one, score=one.score + (1 - RANK_SHARE) * weight * (lexical - one.lexical))
    cosine = ranking.context_cosine(one.cosine, before.cosine, is_answer=is_answer)
    gain = ranking.COSINE_WEIGHT * (cosine - one.cosine) + ranking.LEXICAL_WEIGHT * (lexical - one.lexical)
    return replace(one, score=one.score + (1 - RANK_SHARE) * gain, cosine=cosine)


def _before(scored: Sequence[_Scored]) -> dict[int, int]:
    """By the place of a match, the place of the one that the same session wrote before it: of several written at once,
    the best."""
    sessions: dict[str, dict[datetime, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, one in enumerate(scored):
        facts = one.match.facts
        if facts.session_id and facts.written_at:
            sessions[facts.session_id][instant(facts.written_at)].append(place)
    found: dict[int, int] = {}
    for written in sessions.values():
        for earlier, later in pairwise(sorted(written)):
            if later - earlier <= ranking.MAX_CONTEXT_GAP:
                best = max(written[earlier], key=lambda place: scored[place].score)
                found |= dict.fromkeys(written[later], best)
    return found


def _near_best_session(scored: Sequence[_Scored]) -> list[_Scored]:
    """Matches of sessions that fit less well than the best one come later, as in notes."""
    sessions = {place: one.match.facts.session_id for place, one in enumerate(scored) if one.match.facts.session_id}
    distances = ranking.session_distances({place: one.score for place, one in enumerate(scored)}, sessions)
    return [
        one if one.cosine is None else replace(one, score=one.score - _reduction(one.cosine, distances[place]))
        for place, one in enumerate(scored)
    ]


def _reduction(cosine: float, distance: float) -> float:
    return (1 - RANK_SHARE) * ranking.COSINE_WEIGHT * (cosine - ranking.cosine_in_session(cosine, distance))
