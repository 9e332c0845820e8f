"""Finding by words: which memories a query brings into the running, and how much of the query each of them covers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memory_mcp.search import fts_query, ranking

MAX_TERMS = 64  # words of a query that are looked for: a pasted document is no question


class WordIndex(Protocol):
    """One family's full-text index, narrowed to what this search may find."""

    def expression(self, query: str) -> str | None:
        """The query as an FTS5 expression, if it is meant as one."""

    def documents(self) -> int:
        """How many memories there are to find."""

    def count(self, term: str, most: int) -> int:
        """How many memories hold a term; `most` if they are that many or more."""

    def holding(self, term: str, among: Collection[int]) -> Mapping[int, float]:
        """Which of some memories hold a term, and how far each does: 1.0 in its own text."""

    def matching(self, expression: str, most: int) -> Mapping[int, float]:
        """The bm25 of the best matches of plain terms, higher for better."""

    def matching_syntax(self, expression: str, most: int) -> Mapping[int, float]:
        """The same of an FTS5 expression that somebody wrote."""

    def containing(self, text: str, most: int) -> Mapping[int, float]:
        """Memories that hold a text without any word in it, such as an emoji."""


@dataclass(frozen=True)
class Matches:
    bm25: Mapping[int, float] = field(default_factory=dict)
    covered: Mapping[int, float] = field(default_factory=dict)  # the share of the query each holds

    def scores(self) -> dict[int, float]:
        """How well words match, in [0, 1]."""
        best = max(self.bm25.values(), default=0.0)
        return {id_: ranking.lexical(self.covered[id_], bm25, best) for id_, bm25 in self.bm25.items()}


def by_words(index: WordIndex, query: str, most: int) -> Matches:
    """The best `most` matches of a query, in FTS5 syntax or in plain words."""
    expression = index.expression(query)
    if expression is not None:
        found = index.matching_syntax(expression, most)
        return Matches(found, dict.fromkeys(found, 1.0))
    if terms := fts_query.terms(query)[:MAX_TERMS]:
        return _by_terms(index, terms, most)
    found = index.containing(query, most) if query else {}
    return Matches(found, dict.fromkeys(found, 1.0))


def _by_terms(index: WordIndex, terms: Sequence[str], most: int) -> Matches:
    documents = index.documents()
    counts = _counts(index, terms, documents)
    found = index.matching(fts_query.either(_rarest(counts, at_least=most)), most)
    holders = [(count, index.holding(term, found) if count else {}) for term, count in counts.items()]
    return Matches(found, ranking.coverage(found, documents, holders))


def _counts(index: WordIndex, terms: Sequence[str], documents: int) -> dict[str, int]:
    """How many memories hold each term. Terms too common to tell memories apart are left out if others remain."""
    cap = ranking.common_from(documents)
    counts = {term: index.count(term, cap) for term in terms}
    telling = {term: count for term, count in counts.items() if count < cap}
    return telling or {term: index.count(term, documents) for term in terms}


def _rarest(counts: Mapping[str, int], *, at_least: int) -> list[str]:
    """The rarest terms that together bring enough memories into the running. A memory that holds only commoner ones
    would come after those in any case."""
    chosen, brought = [], 0
    for term in sorted(counts, key=lambda term: counts[term]):
        chosen.append(term)
        brought += counts[term]
        if brought >= at_least:
            break
    return chosen
