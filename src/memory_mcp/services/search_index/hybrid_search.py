"""Search by words and by vectors at once: which texts are candidates, and the parts of each one's score."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_mcp.engines.texts import Allowed, Query
from memory_mcp.engines.transactions import Read
from memory_mcp.services.embedding.chunks import chunks
from memory_mcp.services.search import labels, ranking, snippets, word_search
from memory_mcp.services.search.questions import is_question
from memory_mcp.services.search.word_search import Matches
from memory_mcp.services.search_index.embedding_queue import embedded_text
from memory_mcp.services.search_index.storage import forms
from memory_mcp.services.search_index.storage.forms import Forms
from memory_mcp.services.search_index.storage.words import TextWordIndex
from memory_mcp.services.search_index.tables import Tables
from memory_mcp.services.search_index.vector_search import Nearness, QueryVector, VectorSearch

MAX_BY_WORDS = 200  # candidates of each kind of search, unless more are wanted
MAX_BY_VECTOR = 100
DIGITS = 6  # of scores and their parts

ScoreParts = tuple[float | None, float | None, float]
"""Cosine, lexical and importance; None for a part that was not computed."""


@dataclass(frozen=True)
class Candidates:
    lexical: Mapping[int, float] | None  # None: not searched by words
    near: Nearness
    cosines: Mapping[int, float] = field(default_factory=dict)  # of those with a vector, in [0, 1]
    notice: str | None = None
    facts: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    """The columns of `Tables.facts`, of all candidates, and of texts that are none in the end."""

    @property
    def seqs(self) -> set[int]:
        return set(self.near.nearest) if self.lexical is None else {*self.lexical, *self.near.related}

    def parts(self, seq: int, importance: float) -> ScoreParts:
        """The parts of the score, rounded, so that the formula holds exactly for the shown values."""
        cosine = self.cosines.get(seq)
        return (
            None if cosine is None else round(cosine, DIGITS),
            None if self.lexical is None else round(self.lexical.get(seq, 0.0), DIGITS),
            round(importance, DIGITS),
        )


@dataclass(frozen=True)
class HybridSearch:
    """One query in one index."""

    tables: Tables
    vectors: VectorSearch
    text: str
    vector: QueryVector | None  # None: by words alone
    allowed: Allowed | None  # None: every text that is indexed
    wanted: int  # hits, with those before the page
    is_confined: bool = False
    ignores_words: bool = False
    is_partial: bool = False  # other searches for the same query look at the other texts of the file
    falls_back: bool = False  # to the plain words of an FTS5 expression that matches nothing

    def candidates(self, tx: Read) -> Candidates:
        if self.ignores_words:
            near = self._near(tx, ())
            found = self._forms(tx, near.deviations)
            return Candidates(None, near, self._cosines(near, found), facts=found.facts)
        matches = self._by_words(tx)
        near = self._near(tx, matches.bm25)
        found = self._forms(tx, {*matches.bm25, *near.deviations})
        lexical = matches.scores(found.answers)
        if not (near.has_fit or matches.cover(ranking.MIN_COVERED)):  # those without a vector
            lexical = {seq: score for seq, score in lexical.items() if seq not in near.deviations}
        return Candidates(lexical, near, self._cosines(near, found), matches.notice, found.facts)

    def with_texts(self, tx: Read, candidates: Candidates, seqs: Collection[int]) -> Candidates:
        """The same with the nearness of these texts, too."""
        near = self._near(tx, seqs)
        cosines = self._cosines(near, self._forms(tx, near.deviations))
        return replace(candidates, near=near, cosines=cosines)

    def _near(self, tx: Read, candidates: Collection[int]) -> Nearness:
        if self.vector is None:
            return Nearness()
        flags = self.allowed.flags if self.allowed else None
        limit = max(MAX_BY_VECTOR, self.wanted + 1)
        return self.vectors.near(tx, self.vector, candidates, flags, limit, is_partial=self.is_partial)

    def _forms(self, tx: Read, seqs: Collection[int]) -> Forms:
        return forms.among(tx, self.tables, seqs) if seqs else Forms()

    def _cosines(self, near: Nearness, found: Forms) -> dict[int, float]:
        query_is_question = is_question(self.text)
        query_words = labels.words(self.text)
        named = {one for one in set(found.labels.values()) if labels.is_in_query(labels.words(one), query_words)}
        return {
            seq: ranking.cosine_part(
                of_text.own,
                of_text.with_context,
                ranking.TextForm(
                    is_answer=seq in found.answers,
                    are_both_questions=query_is_question and seq in found.questions,
                    is_labelled=found.labels.get(seq) in named,
                ),
            )
            for seq, of_text in near.deviations.items()
        }

    def _by_words(self, tx: Read) -> Matches:
        index = TextWordIndex(tx, self.tables, self.allowed, self.is_confined)
        limit = max(MAX_BY_WORDS, self.wanted + 1)
        return word_search.by_words(index, self.text, limit, falls_back=self.falls_back)


def first_queries(tx: Read, tables: Tables, text: str) -> Sequence[Query]:
    """What a search for a text reads first, to be prefetched."""
    terms = word_search.first_terms(TextWordIndex(tx, tables, None), text)
    return tx.texts(tables.words).first_queries(terms)


def score(parts: ScoreParts) -> float:
    return round(ranking.score(*parts), DIGITS)


def snippet(query: str, own_title: str, content: str, chunk: int) -> str:
    """The whole of a short text, else the passages with the matching words; if there are none, the chunk (by number)
    nearest in meaning."""
    if not chunk:
        return snippets.excerpt(content, query)
    text = embedded_text(own_title, content)
    found = chunks(text)
    start, _ = found[min(chunk, len(found) - 1)]  # it may have become shorter since it was embedded
    return snippets.excerpt(content, query, max(0, start - (len(text) - len(content))))
