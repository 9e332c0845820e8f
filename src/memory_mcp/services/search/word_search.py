"""Search by words: the candidates for a query, and how much of the query each of them covers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from memory_mcp.engines.texts import BestMatches
from memory_mcp.services.search import fts_query, ranking

MAX_TERMS = 64  # of a query; the rest is ignored: a pasted document is not a query


class WordIndex(Protocol):
    """One family's full-text index, limited to the memories that this search may find."""

    def expression(self, query: str) -> str | None:
        """The query as an FTS5 expression, if it is one."""

    def documents(self) -> int:
        """How many memories there are to find."""

    def counts(self, terms: Sequence[str], limit: int) -> Mapping[str, int]:
        """How many memories contain each term, at most `limit`."""

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        """The best matches of any of the `rare` terms, and which of them contain which of all `terms`."""

    def matching_syntax(self, expression: str, limit: int) -> Mapping[int, float]:
        """The bm25 of the best matches of a user's FTS5 expression, higher for better."""

    def containing(self, text: str, limit: int) -> Mapping[int, float]:
        """Memories that contain a text without words, such as an emoji."""


class SingleTermIndex(ABC):
    """An index that is searched for one term at a time."""

    @abstractmethod
    def count(self, term: str, limit: int) -> int:
        """How many memories contain a term, at most `limit`."""

    @abstractmethod
    def holding(self, term: str, among: Collection[int]) -> Mapping[int, float]:
        """Which of these memories contain a term, and to what degree: 1.0 in its own text."""

    @abstractmethod
    def matching(self, expression: str, limit: int) -> Mapping[int, float]:
        """The bm25 of the best matches of plain terms, higher for better."""

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        return {term: self.count(term, limit) for term in terms}

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        found = self.matching(fts_query.any_of(rare), limit)
        return BestMatches(found, {term: self.holding(term, found) for term in terms})


@dataclass(frozen=True)
class Matches:
    bm25: Mapping[int, float] = field(default_factory=dict)
    covered: Mapping[int, float] = field(default_factory=dict)  # the share of the query that each contains
    by_context: Mapping[int, float] = field(default_factory=dict)  # the part that only the text before it contains
    notice: str | None = None

    def cover(self, share: float) -> bool:
        """Whether one of them contains this share of the query."""
        return any(covered >= share for covered in self.covered.values())

    def scores(self, answers: Collection[int] = ()) -> dict[int, float]:
        """How well words match, in [0, 1]. `answers`: those that come after a question."""
        best = max(self.bm25.values(), default=0.0)
        return {id_: ranking.lexical(self._covered(id_, answers), bm25, best) for id_, bm25 in self.bm25.items()}

    def _covered(self, id_: int, answers: Collection[int]) -> float:
        covered, by_context = self.covered[id_], self.by_context.get(id_)
        return ranking.covered_with_context(covered, by_context, is_answer=id_ in answers) if by_context else covered


def first_terms(index: WordIndex, query: str) -> list[str]:
    """The terms that are counted first."""
    return [] if index.expression(query) is not None else fts_query.terms(query)[:MAX_TERMS]


def by_words(index: WordIndex, query: str, limit: int, *, falls_back: bool = False) -> Matches:
    """The best `limit` matches of a query, in FTS5 syntax or in plain words. `falls_back`: if an expression matches
    nothing, those of its plain words, with a notice."""
    expression = index.expression(query)
    if expression is not None:
        found = index.matching_syntax(expression, limit)
        plain = fts_query.without_operators(query) if falls_back and not found else None
        matches = _by_terms(index, fts_query.terms(plain)[:MAX_TERMS], limit) if plain else Matches()
        if matches.bm25:
            return replace(matches, notice=fts_query.PLAIN_WORDS)
        return Matches(found, dict.fromkeys(found, 1.0))
    if terms := fts_query.terms(query)[:MAX_TERMS]:
        return _by_terms(index, terms, limit)
    found = index.containing(query, limit) if query else {}
    return Matches(found, dict.fromkeys(found, 1.0))


def _by_terms(index: WordIndex, terms: Sequence[str], limit: int) -> Matches:
    documents = index.documents()
    counts = _counts(index, terms, documents)
    best = index.best(_rarest(counts, at_least=limit), [term for term, count in counts.items() if count], limit)
    holders = [(count, best.holders.get(term, {})) for term, count in counts.items()]
    covered = ranking.coverage(best.bm25, documents, holders)
    if all(degree == 1.0 for _, held in holders for degree in held.values()):
        return Matches(best.bm25, covered)
    in_context = [(count, {id_: degree for id_, degree in held.items() if degree < 1.0}) for count, held in holders]
    return Matches(best.bm25, covered, ranking.coverage(best.bm25, documents, in_context))


def _counts(index: WordIndex, terms: Sequence[str], documents: int) -> Mapping[str, int]:
    """How many memories contain each term. Terms that are too common are left out if others remain."""
    cap = ranking.common_from(documents)
    counts = index.counts(terms, cap)
    rare = {term: count for term, count in counts.items() if count < cap}
    return rare or index.counts(terms, documents)


def _rarest(counts: Mapping[str, int], *, at_least: int) -> list[str]:
    """The rarest terms that together give enough candidates. Memories that contain only more common terms would rank
    below those in any case."""
    chosen, brought = [], 0
    for term in sorted(counts, key=lambda term: counts[term]):
        chosen.append(term)
        brought += counts[term]
        if brought >= at_least:
            break
    return chosen
