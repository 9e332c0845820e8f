"""A full-text index in a tsvector, with the matches and ranks of FTS5.

The table NAME_rows (tenant, number, length, words) has a row for each text; the view NAME shows those of the tenant.
word_totals has the number of texts and of their words.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memory_mcp.engines.postgres import words
from memory_mcp.engines.texts import Allowed, BestMatches, WordTable

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.transactions import PostgresRead

K1, B = 1.2, 0.75  # as in FTS5's bm25
TYPICAL_LENGTH = 100  # words of a text, where ranks must not depend on others (engines/sqlite/term_frequency.py)
MIN_IDF = 1e-6  # as in FTS5: of a word that half of all texts contain
MAX_COUNTED = 5000  # texts that contain a term; beyond, its weight hardly differs
MIN_RANKED = 700  # matches that are ranked, by the weights of the words they contain


@dataclass(frozen=True)
class PostgresTexts:
    tx: PostgresRead
    table: WordTable
    allowed: Allowed | None
    is_confined: bool
    _counts: dict[str, int] = field(default_factory=dict)  # of all texts that contain a term

    @property
    def numbers(self) -> str:
        return f"SELECT number FROM {self.table.name}"

    def insert(self, number: int, texts: Mapping[str, str]) -> None:
        vector, length = words.vector(texts, self._letters)
        self.tx.all(
            f"INSERT INTO {self.table.name}_rows (number, length, words) VALUES (:number, :length, :words::tsvector)",
            {"number": number, "length": length, "words": vector},
        )

    def delete(self, number: int) -> None:
        self.tx.all(f"DELETE FROM {self.table.name}_rows WHERE number = :number", {"number": number})

    def documents(self) -> int:
        return self.allowed.count if self.allowed else self._totals[0]

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        containing = f"SELECT number FROM {self.table.name} WHERE words @@ one.query"
        every = (
            f"(SELECT count(*) FROM ({containing} LIMIT {MAX_COUNTED}) AS every)" if self.allowed else "NULL::bigint"
        )
        rows = self.tx.all(
            f"""
            SELECT (SELECT count(*) FROM ({containing} {self._allowed_condition()} LIMIT :limit) AS own), {every}
            FROM unnest(:terms::tsquery[]) WITH ORDINALITY AS one(query, index) ORDER BY one.index
            """,
            self._allowed_values() | {"terms": [words.term_query(term) for term in terms], "limit": limit},
        )
        self._counts.update(
            (term, own if every is None else every) for term, (own, every) in zip(terms, rows, strict=True)
        )
        return {term: own for term, (own, _) in zip(terms, rows, strict=True)}

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        every = list(dict.fromkeys([*rare, *terms]))
        found = self._find_matches(words.any_of(rare), every, len(rare), limit)
        bm25 = self._rank(found, len(rare), every, limit)
        holders = {
            term: {number: degree for number in bm25 if (degree := self._degree(found[number], index))}
            for index, term in enumerate(every)
        }
        return BestMatches(bm25, {term: holders[term] for term in terms})

    def matching(self, expression: str, limit: int) -> dict[int, float]:
        query, phrases = words.expression_query(expression, self._letters)
        phrases = list(dict.fromkeys(phrases))
        if unknown := [phrase for phrase in phrases if phrase not in self._counts]:
            self._counts.update(PostgresTexts(self.tx, self.table, None, False).counts(unknown, MAX_COUNTED))
        return self._rank(self._find_matches(query, phrases, len(phrases), limit), len(phrases), phrases, limit)

    def optimize(self) -> None:
        """Nothing to do: VACUUM removes the words of deleted texts."""

    def _find_matches(self, query: str, terms: Sequence[str], scored: int, limit: int) -> dict[int, _Match]:
        """The matches that contain the rarest of the first `scored` terms, and how often each contains every term."""
        values: dict[str, Any] = {"query": query, "ranked": max(MIN_RANKED, 3 * limit)}
        weights, ranks = [], []
        for index, term in enumerate(terms):
            values[f"term{index}"] = words.term_query(term)
            ranks += [_cumulative_rank(index, letter, is_phrase=_is_phrase(term)) for letter in self._letters_in_use]
            if index < scored:
                values[f"idf{index}"] = self._idf(term)
                weights.append(f"CASE WHEN words @@ :term{index}::tsquery THEN :idf{index}::float8 ELSE 0 END")
        rows = self.tx.all(
            f"""
            SELECT number, length, ARRAY[{", ".join(ranks)}] FROM (
                SELECT number, length, words FROM {self.table.name}
                WHERE words @@ :query::tsquery {self._allowed_condition()}
                ORDER BY {" + ".join(weights)} DESC, length LIMIT :ranked
            ) AS candidates
            """,
            self._allowed_values() | values,
        )
        return {
            number: _Match(length, [self._frequencies(ranks, index, term) for index, term in enumerate(terms)])
            for number, length, ranks in rows
        }

    def _frequencies(self, ranks: Sequence[float], index: int, term: str) -> tuple[int, ...]:
        """How often a text contains a term, for each letter in use; a phrase counts once, where it comes first."""
        count = len(self._letters_in_use)
        own = ranks[count * index : count * (index + 1)]
        sums = [int(rank) for rank in own] if _is_phrase(term) else [_frequency(rank) for rank in own]
        found = [later - earlier for earlier, later in itertools.pairwise([0, *sums])]
        return tuple(found)

    def _rank(self, found: Mapping[int, _Match], scored: int, terms: Sequence[str], limit: int) -> dict[int, float]:
        idfs = [1.0 if self.is_confined else self._idf(term) for term in terms[:scored]]
        scores = {number: self._score(match, idfs) for number, match in found.items()}
        return dict(sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit])

    def _score(self, match: _Match, idfs: Sequence[float]) -> float:
        length = K1 * (1 - B + B * match.length / self._average_length)
        score = 0.0
        for idf, frequencies in zip(idfs, match.frequencies, strict=False):
            frequency = sum(
                count * weight for count, (weight, _) in zip(frequencies, self._letter_weights, strict=True)
            )
            score += idf * frequency * (K1 + 1) / (frequency + length)
        return score

    def _degree(self, match: _Match, index: int) -> float:
        found = zip(match.frequencies[index], self._letter_weights, strict=True)
        return max((degree for count, (_, degree) in found if count), default=0.0)

    def _idf(self, term: str) -> float:
        documents, holding = self._totals[0], self._counts.get(term, 1)
        if holding > documents:
            return MIN_IDF
        return max(MIN_IDF, math.log((documents - holding + 0.5) / (holding + 0.5)))

    @cached_property
    def _average_length(self) -> float:
        documents, length = self._totals
        return TYPICAL_LENGTH if self.is_confined or not documents else length / documents

    @cached_property
    def _totals(self) -> tuple[int, int]:
        """Texts, and their tokens."""
        row = self.tx.one(
            "SELECT texts, tokens FROM word_totals WHERE name = :name", {"name": f"{self.table.name}_rows"}
        )
        return (row[0], row[1]) if row else (0, 0)

    @cached_property
    def _letters(self) -> dict[str, str]:
        return {column.name: column.letter for column in self.table.columns}

    @cached_property
    def _letters_in_use(self) -> list[str]:
        return sorted(set(self._letters.values()))

    @cached_property
    def _letter_weights(self) -> list[tuple[float, float]]:
        """Weight and degree of each letter in use."""
        by_letter = {column.letter: (column.weight, column.degree) for column in self.table.columns}
        return [by_letter[letter] for letter in self._letters_in_use]

    def _allowed_condition(self) -> str:
        return "AND get_byte(:flags, number::int) = 1" if self.allowed else ""

    def _allowed_values(self) -> dict[str, Any]:
        return {"flags": self.allowed.flags} if self.allowed else {}


@dataclass(frozen=True)
class _Match:
    length: int
    frequencies: Sequence[Sequence[int]]  # for each term, for each letter in use


# To unnest a tsvector takes 35 µs, so SQL does not count how often a word occurs. But ts_rank of one word is the sum of
# 1/n² over its positions, each with the weight of its letter, divided by π²/6; and columns stand in the order of their
# letters. So ts_rank for A alone, for A and B, and so on, gives the numbers. tests/engines/postgres checks it.
_SUMS = list(itertools.accumulate(1 / n**2 / 1.64493406685 for n in range(1, words.MAX_POSITIONS + 1)))
_ABSENT = 1e-10  # ts_rank of a word that does not occur is below


def _cumulative_rank(index: int, letter: str, *, is_phrase: bool) -> str:
    """SQL for a number that says how often a term occurs with this letter or with one before it. ts_rank does not
    look whether the words of a phrase stand side by side, so a phrase is matched, and the number is 0 or 1."""
    if is_phrase:
        return f"(ts_filter(words, '{{{','.join('ABCD'[: 'ABCD'.index(letter) + 1])}}}') @@ :term{index}::tsquery)::int"
    weights = ",".join(str(int(one <= letter)) for one in "DCBA")
    return f"ts_rank('{{{weights}}}', words, :term{index}::tsquery)"


def _is_phrase(term: str) -> bool:
    return len(words.phrase_words(term)) > 1


def _frequency(rank: float) -> int:
    return bisect.bisect(_SUMS, rank + 1e-6) if rank > _ABSENT else 0
