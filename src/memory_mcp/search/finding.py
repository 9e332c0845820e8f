"""Finding by words: which memories a query brings into the running, and how much of the query each of them covers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memory_mcp.search import ranking, words

MOST_TERMS = 64  # words of a query that are looked for: a pasted document is no question


class WordIndex(Protocol):
    """One family's full-text index, narrowed to what this search may find."""

    @property
    def columns(self) -> Sequence[str]:
        """The index's columns, for FTS5 syntax."""

    def documents(self) -> int:
        """How many memories there are to find."""

    def holding(self, term: str, most: int) -> Mapping[int, float]:
        """Up to `most` memories that hold a term, and how far each does: 1.0 in its own text."""

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
    expression = words.syntax(query, index.columns)
    if expression is not None:
        found = index.matching_syntax(expression, most)
        return Matches(found, dict.fromkeys(found, 1.0))
    if terms := words.terms(query)[:MOST_TERMS]:
        documents = index.documents()
        holders = _holders(index, terms, documents)
        found = index.matching(words.either(_rarest(holders, at_least=most)), most)
        return Matches(found, ranking.coverage(found, documents, list(holders.values())))
    found = index.containing(query, most) if query else {}
    return Matches(found, dict.fromkeys(found, 1.0))


def _holders(index: WordIndex, terms: Sequence[str], documents: int) -> dict[str, Mapping[int, float]]:
    """The memories that hold each term. Terms too common to tell memories apart are left out if others remain."""
    cap = ranking.common_from(documents)
    holders = {term: index.holding(term, cap) for term in terms}
    telling = {term: ids for term, ids in holders.items() if len(ids) < cap}
    return telling or {term: index.holding(term, documents) for term in terms}


def _rarest(holders: Mapping[str, Mapping[int, float]], *, at_least: int) -> list[str]:
    """The rarest terms that together bring enough memories into the running. A memory that holds only commoner ones
    would come after those in any case."""
    chosen, brought = [], 0
    for term in sorted(holders, key=lambda term: len(holders[term])):
        chosen.append(term)
        brought += len(holders[term])
        if brought >= at_least:
            break
    return chosen
