"""Finding by words, in an index as small as one can be."""

from collections.abc import Collection, Mapping, Sequence

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.search import fts_query, word_search


class Shelf:
    """Texts under numbers from 1 on, and a note of what was asked of the index."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.asked: list[str] = []
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE shelf USING fts5(content, tokenize='porter unicode61 remove_diacritics 2')"
        )
        with self._connection:
            self._connection.executemany("INSERT INTO shelf VALUES (?)", [(fts_query.spaced(text),) for text in texts])

    def expression(self, query: str) -> str | None:
        return fts_query.syntax(query, ("content",))

    def documents(self) -> int:
        return len(self.texts)

    def count(self, term: str, most: int) -> int:
        return min(most, len(self._holders(term)))

    def holding(self, term: str, among: Collection[int]) -> Mapping[int, float]:
        return dict.fromkeys(self._holders(term) & set(among), 1.0)

    def _holders(self, term: str) -> set[int]:
        return {rowid for (rowid,) in self._connection.execute("SELECT rowid FROM shelf WHERE shelf MATCH ?", (term,))}

    def matching(self, expression: str, most: int) -> Mapping[int, float]:
        self.asked.append(expression)
        rows = self._connection.execute(
            "SELECT rowid, -rank FROM shelf WHERE shelf MATCH ? ORDER BY rank LIMIT ?", (expression, most)
        )
        return dict(rows)

    def matching_syntax(self, expression: str, most: int) -> Mapping[int, float]:
        return self.matching(expression, most)

    def containing(self, text: str, most: int) -> Mapping[int, float]:
        self.asked.append(f"holds {text}")
        return {number: 1.0 for number, held in enumerate(self.texts, 1) if text in held}


class Halved(Shelf):
    """An index that holds every word by half, as if it stood in the text before."""

    def holding(self, term: str, among: Collection[int]) -> Mapping[int, float]:
        return dict.fromkeys(super().holding(term, among), 0.5)


def best_first(shelf: Shelf, query: str, most: int = 10) -> list[int]:
    scores = word_search.by_words(shelf, query, most).scores()
    assert all(0 <= score < 1 for score in scores.values())
    return sorted(scores, key=lambda number: -scores[number])


def test_any_word_finds_and_who_holds_more_of_them_comes_first() -> None:
    shelf = Shelf(["nothing", "a backup", "the backup policy of the site", "policy"])

    assert best_first(shelf, "What is the backup policy?")[0] == 3
    assert set(best_first(shelf, "What is the backup policy?")) == {2, 3, 4}
    assert best_first(shelf, "wombat") == []


def test_a_rare_word_says_more_than_a_common_one() -> None:
    shelf = Shelf(["report"] * 20 + ["wombat"])

    assert best_first(shelf, "wombat report", most=30)[0] == 21


def test_a_word_that_is_held_by_half_covers_half() -> None:
    texts = ["backup policy", "backup"]
    whole, half = (word_search.by_words(shelf, "backup policy", 10).covered for shelf in (Shelf(texts), Halved(texts)))

    assert half == {number: pytest.approx(share / 2) for number, share in whole.items()}
    assert whole[1] == pytest.approx(1.0)


def test_what_is_meant_as_an_expression_is_asked_as_one() -> None:
    shelf = Shelf(["backup policy", "policy of backup"])

    assert best_first(shelf, '"backup policy"') == [1]
    assert best_first(shelf, "backup NOT policy") == []
    assert shelf.asked == ['"backup policy"', "backup NOT policy"]
    assert set(word_search.by_words(shelf, "polic*", 10).covered.values()) == {1.0}


def test_a_broken_expression_is_plain_words() -> None:
    shelf = Shelf(["backup policy"])

    assert best_first(shelf, 'backup AND "policy') == [1]


def test_what_holds_no_word_is_looked_for_as_it_stands() -> None:
    shelf = Shelf(["party 🎉", "nothing"])

    assert best_first(shelf, "🎉") == [1]
    assert shelf.asked == ["holds 🎉"]
    assert word_search.by_words(shelf, "", 10).scores() == {}


def test_words_in_every_other_text_are_left_out_if_rarer_ones_remain() -> None:
    shelf = Shelf([f"report {number}" for number in range(1200)] + ["the wombat report"])

    assert best_first(shelf, "wombat report") == [1201]
    assert shelf.asked == ['"wombat"']


def test_when_every_word_is_common_they_are_all_there_is() -> None:
    shelf = Shelf(["daily report"] * 1200)

    assert len(best_first(shelf, "report", most=50)) == 50


def test_no_more_words_are_asked_for_than_bring_enough() -> None:
    shelf = Shelf(["rare"] * 3 + ["common"] * 9)

    assert best_first(shelf, "common rare", most=3) == [1, 2, 3]
    assert shelf.asked == ['"rare"']
    assert len(best_first(shelf, "common rare", most=12)) == 12


def test_a_pasted_document_is_looked_for_by_its_first_words() -> None:
    shelf = Shelf(["word3", "word900"])

    assert best_first(shelf, " ".join(f"word{number}" for number in range(1000))) == [1]


texts = st.lists(st.text("ab cé备份🎉'\"", max_size=12), max_size=6)
queries = st.lists(st.sampled_from([*"ab c\"*()^:é备份🎉'-", " AND ", " OR ", " NOT ", "NEAR("]), max_size=8).map(
    "".join
)


@given(texts, queries)
def test_any_query_has_an_answer_within_bounds(texts: list[str], query: str) -> None:
    matches = word_search.by_words(Shelf(texts), query, 5)

    assert matches.bm25.keys() == matches.covered.keys() == matches.scores().keys()
    assert matches.bm25.keys() <= set(range(1, len(texts) + 1))
    assert all(0 <= score < 1 for score in matches.scores().values())
