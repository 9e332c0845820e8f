"""A full-text index in a tsvector, with the matches and ranks of FTS5.

The table NAME_rows (tenant, number, length, words) has a row for each text; the view NAME shows those of the tenant.
word_totals has the number of texts and of their words, word_counts how many contain each word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memory_mcp.engines.postgres import word_counts, words
from memory_mcp.engines.postgres.matches import ABSENT, RANK_SUMS, TEXT_LIST, CountedMatches, TextList, cumulative_rank
from memory_mcp.engines.postgres.words import Phrase
from memory_mcp.engines.texts import Allowed, BestMatches, Owners, Query, Selected, WordTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memory_mcp.engines.postgres.transactions import PostgresRead

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int64]

K1, B = 1.2, 0.75  # as in FTS5's bm25
TYPICAL_LENGTH = 100  # words of a text, where ranks must not depend on others (engines/sqlite/term_frequency.py)
MIN_IDF = 1e-6  # as in FTS5: of a word that half of all texts contain
MAX_COUNTED = 5000  # texts that contain a term; beyond, its weight hardly differs
MAX_LISTED = 50_000  # texts with a phrase that are listed where they are counted
MIN_RANKED = 700  # matches that are ranked, by the weights of the words they contain

_TOTALS = "SELECT texts, tokens, changes FROM word_totals WHERE name = :name"

TEXTS_PER_OWNER = 3  # that are ranked, where texts have owners


@dataclass(frozen=True)
class PostgresTexts:
    tx: PostgresRead
    table: WordTable
    allowed: Allowed | Selected | None
    is_confined: bool
    _counts: dict[Phrase, int] = field(default_factory=dict)  # of all texts that contain a phrase, as far as counted
    _stored: dict[Phrase, int] = field(default_factory=dict)  # the same, as the database has them
    _lists: dict[Phrase, TextList] = field(default_factory=dict, init=False)  # the allowed texts that contain a phrase

    @property
    def numbers(self) -> str:
        return f"SELECT number FROM {self.table.name}"

    def first_queries(self, terms: Sequence[str]) -> Sequence[Query]:
        phrases = [words.phrase(term) for term in terms]
        stored = [phrase for phrase in phrases if word_counts.is_stored(phrase)]
        return [self._totals_query, *([word_counts.query(self._rows_name, stored)] if stored else [])]

    def insert(self, number: int, texts: Mapping[str, str]) -> None:
        vector, length = words.vector(texts, self._letters, is_stemmed=self.table.is_stemmed)
        self.tx.all(
            f"INSERT INTO {self.table.name}_rows (number, length, words) VALUES (:number, :length, :words::tsvector)",
            {"number": number, "length": length, "words": vector},
        )

    def delete(self, number: int) -> None:
        self.tx.all(f"DELETE FROM {self.table.name}_rows WHERE number = :number", {"number": number})

    def narrowed(self, allowed: Selected) -> PostgresTexts:
        return replace(self, allowed=allowed)

    def documents(self) -> int:
        if isinstance(self.allowed, Selected):
            return self.tx.number(f"SELECT count(*) FROM ({self.allowed.statement}) AS allowed", self.allowed.values)
        return self.allowed.count if self.allowed else self._totals.texts

    def counts(self, terms: Sequence[str], limit: int) -> dict[str, int]:
        found = self._count([words.phrase(term) for term in terms], limit)
        return dict(zip(terms, found, strict=True))

    def best(self, rare: Sequence[str], terms: Sequence[str], limit: int) -> BestMatches:
        every = [words.phrase(term) for term in dict.fromkeys([*rare, *terms])]
        self._count_unknown(every[: len(rare)])
        found = self._find_any(every, len(rare), limit)
        bm25 = self._rank(found, len(rare), every, limit)
        if self.table.owners:
            return BestMatches(bm25, self._owners_containing(self.table.owners, terms, list(bm25)))
        best = found.rows_of(bm25)
        return BestMatches(bm25, {term: self._holders(best, every.index(words.phrase(term))) for term in terms})

    def matching(self, expression: str, limit: int) -> dict[int, float]:
        query, phrases = words.expression_query(expression, self._letters, is_stemmed=self.table.is_stemmed)
        self._count_unknown(phrases)
        return self._rank(self._find_matches(query, phrases, limit), len(phrases), phrases, limit)

    def optimize(self) -> None:
        """Merge the changes of stored counts, which have words of deleted texts. VACUUM removes those of the index."""
        self.tx.all("SELECT merge_word_changes(current_setting('memory.tenant'), :name)", {"name": self._rows_name})

    def _count_unknown(self, phrases: Sequence[Phrase]) -> None:
        self._read_stored(phrases)
        if unknown := [phrase for phrase in phrases if phrase not in self._stored and phrase not in self._counts]:
            replace(self, allowed=None)._count_texts(unknown, MAX_COUNTED)

    def _count(self, phrases: Sequence[Phrase], limit: int) -> list[int]:
        """How many allowed texts contain each phrase, at most `limit`."""
        self._read_stored(phrases)
        is_about_all = not self.allowed and not self.table.owners
        found = {
            phrase: min(count, limit)
            for phrase in phrases
            if (count := self._stored.get(phrase)) is not None and (is_about_all or count == 0)
        }
        if others := [phrase for phrase in phrases if phrase not in found]:
            found |= zip(others, self._count_texts(others, limit), strict=True)
        return [found[phrase] for phrase in phrases]

    def _read_stored(self, phrases: Sequence[Phrase]) -> None:
        wanted = [phrase for phrase in phrases if word_counts.is_stored(phrase) and phrase not in self._stored]
        if wanted and self._totals.changes <= word_counts.MAX_UNMERGED:
            self._stored.update(word_counts.read(self.tx, self._rows_name, wanted))

    def _count_texts(self, phrases: Sequence[Phrase], limit: int) -> list[int]:
        """The same, counted by looking at the texts. Remembers them in `_lists`, and how many of all texts contain each
        phrase in `_counts`."""
        containing = f"SELECT number, length FROM {self.table.name} WHERE words @@ one.query"
        own, every = f"{containing} {self._allowed_condition()}", "NULL::bigint"
        listed = f"CASE WHEN count(*) < :limit AND count(*) <= {MAX_LISTED} THEN {TEXT_LIST} END"
        if owners := self.table.owners:
            own, listed = f"SELECT DISTINCT {owners.number} FROM ({containing}) AS found {owners.join}", "NULL::bytea"
        if (self.allowed or owners) and not all(phrase in self._stored for phrase in phrases):
            every = f"(SELECT count(*) FROM ({containing} LIMIT {MAX_COUNTED}) AS every)"
        rows = self.tx.all(
            f"""
            SELECT own.count, {every}, own.list
            FROM unnest(:phrases::tsquery[]) WITH ORDINALITY AS one(query, index)
            CROSS JOIN LATERAL (SELECT count(*), {listed} AS list FROM ({own} LIMIT :limit) AS own) AS own
            ORDER BY one.index
            """,
            self._allowed_values() | {"phrases": [phrase.query for phrase in phrases], "limit": limit},
        )
        for phrase, (own_count, every_count, packed) in zip(phrases, rows, strict=True):
            self._counts[phrase] = own_count if every_count is None else every_count
            if packed is not None:
                self._lists[phrase] = TextList.from_bytes(packed)
        return [own_count for own_count, _, _ in rows]

    def _owners_containing(
        self, owners: Owners, terms: Sequence[str], among: Sequence[int]
    ) -> dict[str, dict[int, float]]:
        rows = self.tx.all(
            f"""
            SELECT DISTINCT one.index, {owners.number}
            FROM unnest(:phrases::tsquery[]) WITH ORDINALITY AS one(query, index)
            CROSS JOIN LATERAL (SELECT number FROM {self.table.name} WHERE words @@ one.query) AS found {owners.join}
            WHERE {owners.number} = ANY (:among::bigint[])
            """,
            {"phrases": [words.phrase(term).query for term in terms], "among": list(among)},
        )
        holders: dict[str, dict[int, float]] = {term: {} for term in terms}
        for index, owner in rows:
            holders[terms[index - 1]][owner] = 1.0
        return holders

    def _find_any(self, phrases: Sequence[Phrase], scored_count: int, limit: int) -> CountedMatches:
        """The matches that contain the rarest of the first `scored_count` phrases, and how often each contains all."""
        candidates, values = self._candidates(phrases[:scored_count], self._max_ranked(limit))
        return self._count_words(candidates, values, phrases)

    def _candidates(self, phrases: Sequence[Phrase], limit: int) -> tuple[str, Mapping[str, Any]]:
        """SQL for the allowed texts with the rarest phrases, short ones first, and its values."""
        name, allowed = self.table.name, self._allowed_condition()
        are_listed = all(phrase in self._lists for phrase in phrases)
        if not are_listed and sum(self._stored.get(phrase, limit) for phrase in phrases) <= limit:
            containing = f"{name} WHERE words @@ :any::tsquery {allowed}"
            return containing, self._allowed_values() | {"any": words.any_of(phrases)}
        if not are_listed and len(phrases) == 1:
            shortest = f"SELECT number FROM {name} WHERE words @@ :any::tsquery {allowed} ORDER BY length, number"
            values = self._allowed_values() | {"any": phrases[0].query, "ranked": limit}
            return f"({shortest} LIMIT :ranked) AS best JOIN {name} USING (number)", values
        numbers = self._rarest_matches(phrases, limit)
        return f"{name} WHERE number = ANY (:numbers::bigint[])", {"numbers": numbers.tolist()}

    def _rarest_matches(self, phrases: Sequence[Phrase], limit: int) -> Numbers:
        """The allowed texts with the rarest phrases, short ones first."""
        import numpy as np

        lists = self._lists_of(phrases)
        numbers, indexes = np.unique(np.concatenate([one.numbers for one in lists]), return_inverse=True)
        if len(numbers) <= limit:
            return numbers
        idfs = np.repeat([self._idf(phrase) for phrase in phrases], [len(one.numbers) for one in lists])
        lengths = np.zeros(len(numbers))
        lengths[indexes] = np.concatenate([one.lengths for one in lists])
        best: Numbers = np.lexsort((lengths, -np.bincount(indexes, idfs)))[:limit]
        return numbers[best]

    def _lists_of(self, phrases: Sequence[Phrase]) -> list[TextList]:
        """The allowed texts that contain each phrase."""
        if unknown := [phrase for phrase in phrases if phrase not in self._lists]:
            containing = f"SELECT number, length FROM {self.table.name} WHERE words @@ one.query"
            rows = self.tx.all(
                f"""
                SELECT (SELECT {TEXT_LIST} FROM ({containing} {self._allowed_condition()}) AS found)
                FROM unnest(:phrases::tsquery[]) WITH ORDINALITY AS one(query, index) ORDER BY one.index
                """,
                self._allowed_values() | {"phrases": [phrase.query for phrase in unknown]},
            )
            self._lists.update(
                (phrase, TextList.from_bytes(packed or b"")) for phrase, (packed,) in zip(unknown, rows, strict=True)
            )
        return [self._lists[phrase] for phrase in phrases]

    def _find_matches(self, query: str, phrases: Sequence[Phrase], limit: int) -> CountedMatches:
        """The matches of a tsquery that contain the rarest phrases, and how often each contains every one."""
        weights = [
            f"CASE WHEN words @@ :term{index}::tsquery THEN :idf{index}::float8 ELSE 0 END"
            for index in range(len(phrases))
        ]
        candidates = f"""
            SELECT number, length, words FROM {self.table.name}
            WHERE words @@ :query::tsquery {self._allowed_condition()}
            ORDER BY {" + ".join(weights) or "0"} DESC, length LIMIT :ranked
        """
        return self._count_words(
            f"({candidates}) AS candidates",
            self._allowed_values()
            | {f"idf{index}": self._idf(phrase) for index, phrase in enumerate(phrases)}
            | {"query": query, "ranked": self._max_ranked(limit)},
            phrases,
        )

    def _max_ranked(self, limit: int) -> int:
        return max(MIN_RANKED, 3 * limit) * (TEXTS_PER_OWNER if self.table.owners else 1)

    def _count_words(self, candidates: str, values: Mapping[str, Any], phrases: Sequence[Phrase]) -> CountedMatches:
        """How often each candidate contains every phrase."""
        ranks = [
            f"{cumulative_rank(index, letter, phrase)}::real"
            for index, phrase in enumerate(phrases)
            for letter in self._letters_in_use
        ]
        found = self.tx.read_arrays(
            {"number": ("i8", ["number"]), "length": ("i4", ["length"]), "ranks": ("f4", ranks)},
            candidates,
            {**values, **{f"term{index}": phrase.query for index, phrase in enumerate(phrases)}},
        )
        sums = found["ranks"].reshape(len(found["ranks"]), len(phrases), len(self._letters_in_use))
        return CountedMatches(
            found["number"][:, 0],
            found["length"][:, 0],
            [self._frequencies(sums[:, index], phrase) for index, phrase in enumerate(phrases)],
        )

    def _frequencies(self, ranks: Floats, phrase: Phrase) -> Floats:
        """How often each text contains a phrase, for each letter in use. One that is no single word counts once, where
        it comes first."""
        import numpy as np

        sums = np.where(ranks > ABSENT, np.searchsorted(RANK_SUMS, ranks.astype(np.float64) + 1e-6, side="right"), 0)
        sums = sums if phrase.is_word else ranks.astype(np.int64)
        wanted = [letter in (phrase.letters or self._letters_in_use) for letter in self._letters_in_use]
        return np.diff(sums, axis=1, prepend=0) * np.array(wanted)

    def _rank(self, found: CountedMatches, scored_count: int, terms: Sequence[Phrase], limit: int) -> dict[int, float]:
        idfs = [1.0 if self.is_confined else self._idf(term) for term in terms[:scored_count]]
        scores = dict(zip(found.numbers.tolist(), self._scores(found, idfs).tolist(), strict=True))
        if self.table.owners:
            scores = self._by_owner(self.table.owners, scores)
        return dict(sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit])

    def _by_owner(self, owners: Owners, scores: Mapping[int, float]) -> dict[int, float]:
        rows = self.tx.all(
            f"SELECT found.number, {owners.number} FROM unnest(:numbers::bigint[]) AS found(number) {owners.join}",
            {"numbers": list(scores)},
        )
        best: dict[int, float] = {}
        for number, owner in rows:
            best[owner] = max(scores[number], best.get(owner, 0.0))
        return best

    def _scores(self, found: CountedMatches, idfs: Sequence[float]) -> Floats:
        """The bm25 of each."""
        import numpy as np

        lengths = K1 * (1 - B + B * found.lengths / self._average_length)
        weights = np.array([weight for weight, _ in self._letter_weights])
        scores = np.zeros(len(found.numbers))
        for idf, frequencies in zip(idfs, found.frequencies, strict=False):
            frequency = frequencies @ weights
            scores += idf * frequency * (K1 + 1) / (frequency + lengths)
        return scores

    def _holders(self, found: CountedMatches, index: int) -> dict[int, float]:
        """Which of these contain a term, by its index, and to what degree."""
        import numpy as np

        degrees = np.array([degree for _, degree in self._letter_weights])
        highest = ((found.frequencies[index] > 0) * degrees).max(axis=1, initial=0.0)
        held = highest > 0
        return dict(zip(found.numbers[held].tolist(), highest[held].tolist(), strict=True))

    def _idf(self, phrase: Phrase) -> float:
        documents, holding = self._totals.texts, self._stored.get(phrase, self._counts.get(phrase, 1))
        if holding > documents:
            return MIN_IDF
        return max(MIN_IDF, math.log((documents - holding + 0.5) / (holding + 0.5)))

    @cached_property
    def _average_length(self) -> float:
        totals = self._totals
        return TYPICAL_LENGTH if self.is_confined or not totals.texts else totals.tokens / totals.texts

    @cached_property
    def _totals(self) -> _Totals:
        row = self.tx.one(*self._totals_query)
        return _Totals(*row) if row else _Totals()

    @property
    def _totals_query(self) -> Query:
        return _TOTALS, {"name": self._rows_name}

    @property
    def _rows_name(self) -> str:
        return f"{self.table.name}_rows"

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
        if isinstance(self.allowed, Selected):
            return f"AND number IN ({self.allowed.statement})"
        return "AND get_byte(:flags, number::int) = 1" if self.allowed else ""

    def _allowed_values(self) -> dict[str, Any]:
        if isinstance(self.allowed, Selected):
            return dict(self.allowed.values)
        return {"flags": self.allowed.flags} if self.allowed else {}


@dataclass(frozen=True)
class _Totals:
    texts: int = 0
    tokens: int = 0  # of the texts
    changes: int = 0  # that a search adds to the stored counts
