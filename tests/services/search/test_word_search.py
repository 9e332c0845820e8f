"""Search by words, in a minimal index."""

from collections.abc import Collection, Mapping, Sequence

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.services.search import fts_query, word_search


class SmallIndex(word_search.SingleTermIndex):
    """Texts numbered from 1, and a record of the searched expressions."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.expressions: list[str] = []
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(content, tokenize='porter unicode61 remove_diacritics 2')"
        )
        with self._connection:
            self._connection.executemany("INSERT INTO texts VALUES (?)", [(fts_query.spaced(text),) for text in texts])

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, ("content",))

    def documents(self) -> int:
        return len(self.texts)

    def count(self, term: str, limit: int) -> int:
        return min(limit, len(self._holders(term)))

    def holding(self, term: str, among: Collection[int]) -> Mapping[int, float]:
        return dict.fromkeys(self._holders(term) & set(among), 1.0)

    def _holders(self, term: str) -> set[int]:
        return {rowid for (rowid,) in self._connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (term,))}

    def matching(self, expression: str, limit: int) -> Mapping[int, float]:
        self.expressions.append(expression)
        rows = self._connection.execute(
            "SELECT rowid, -rank FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (expression, limit)
        )
        return dict(rows)

    def matching_syntax(self, expression: str, limit: int) -> Mapping[int, float]:
        return self.matching(expression, limit)

    def containing(self, text: str, limit: int) -> Mapping[int, float]:
        self.expressions.append(f"holds {text}")
        return {number: 1.0 for number, held in enumerate(self.texts, 1) if text in held}


class HalfIndex(SmallIndex):
    """An index that contains every word to a degree of half, as if it were in the text before."""

    def holding(self, term: str, among: Collection[int]) -> Mapping[int, float]:
        return dict.fromkeys(super().holding(term, among), 0.5)


def best_first(index: SmallIndex, query: str, limit: int = 10) -> list[int]:
    scores = word_search.by_words(index, query, limit).scores()
    assert all(0 <= score < 1 for score in scores.values())
    return sorted(scores, key=lambda number: -scores[number])


def test_texts_with_more_of_the_words_come_first() -> None:
    index = SmallIndex(["nothing", "a backup", "the backup policy of the site", "policy"])

    assert best_first(index, "What is the backup policy?")[0] == 3
    assert set(best_first(index, "What is the backup policy?")) == {2, 3, 4}
    assert best_first(index, "wombat") == []


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    index = SmallIndex(["report"] * 20 + ["wombat"])

    assert best_first(index, "wombat report", limit=30)[0] == 21


def test_a_degree_of_half_covers_half() -> None:
    texts = ["backup policy", "backup"]
    whole, half = (
        word_search.by_words(index, "backup policy", 10).covered for index in (SmallIndex(texts), HalfIndex(texts))
    )

    assert half == {number: pytest.approx(share / 2) for number, share in whole.items()}
    assert whole[1] == pytest.approx(1.0)


def test_an_expression_is_searched_unchanged() -> None:
    index = SmallIndex(["backup policy", "policy of backup"])

    assert best_first(index, '"backup policy"') == [1]
    assert best_first(index, "backup NOT policy") == []
    assert index.expressions == ['"backup policy"', "backup NOT policy"]
    assert set(word_search.by_words(index, "polic*", 10).covered.values()) == {1.0}


def test_a_broken_expression_is_plain_words() -> None:
    index = SmallIndex(["backup policy"])

    assert best_first(index, 'backup AND "policy') == [1]


def test_a_query_without_words_is_searched_literally() -> None:
    index = SmallIndex(["party 🎉", "nothing"])

    assert best_first(index, "🎉") == [1]
    assert index.expressions == ["holds 🎉"]
    assert word_search.by_words(index, "", 10).scores() == {}


def test_common_words_are_ignored_if_rarer_ones_remain() -> None:
    index = SmallIndex([f"report {number}" for number in range(1200)] + ["the wombat report"])

    assert best_first(index, "wombat report") == [1201]
    assert index.expressions == ['"wombat"']


def test_if_every_word_is_common_all_are_searched() -> None:
    index = SmallIndex(["daily report"] * 1200)

    assert len(best_first(index, "report", limit=50)) == 50


def test_an_expression_that_matches_nothing_may_fall_back_to_its_words() -> None:
    index = SmallIndex(["Alice likes tea", "Bob likes coffee"])
    query = "Alice AND coffee NOT sugar"
    assert not word_search.by_words(index, query, 5).bm25
    plain = word_search.by_words(index, query, 5, falls_back=True)
    assert set(plain.bm25) == {1, 2}
    assert plain.notice == fts_query.PLAIN_WORDS
    assert plain.cover(0.5)
    assert not plain.cover(0.6)
    for other in ('"Alice coffee"', "zeppelin AND wombat", "Alice AND tea"):
        assert word_search.by_words(index, other, 5, falls_back=True).notice is None


def test_only_as_many_words_as_needed_are_searched() -> None:
    index = SmallIndex(["rare"] * 3 + ["common"] * 9)

    assert best_first(index, "common rare", limit=3) == [1, 2, 3]
    assert index.expressions == ['"rare"']
    assert len(best_first(index, "common rare", limit=12)) == 12


def test_only_the_first_words_of_a_long_query_are_searched() -> None:
    index = SmallIndex(["word3", "word900"])

    assert best_first(index, " ".join(f"word{number}" for number in range(1000))) == [1]


texts = st.lists(st.text("ab cé备份🎉'\"", max_size=12), max_size=6)
queries = st.lists(st.sampled_from([*"ab c\"*()^:é备份🎉'-", " AND ", " OR ", " NOT ", "NEAR("]), max_size=8).map(
    "".join
)


@given(texts, queries)
def test_any_query_has_scores_within_bounds(texts: list[str], query: str) -> None:
    matches = word_search.by_words(SmallIndex(texts), query, 5)

    assert matches.bm25.keys() == matches.covered.keys() == matches.scores().keys()
    assert matches.bm25.keys() <= set(range(1, len(texts) + 1))
    assert all(0 <= score < 1 for score in matches.scores().values())
