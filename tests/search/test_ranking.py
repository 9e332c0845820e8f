import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.search import ranking

counts = st.integers(0, 10_000)


@given(counts, counts)
def test_a_words_weight_is_positive_and_falls_with_its_frequency(documents: int, containing: int) -> None:
    containing = min(containing, documents)
    assert ranking.weight(documents, containing) > 0
    if containing:
        assert ranking.weight(documents, containing) < ranking.weight(documents, containing - 1)


@given(st.lists(st.sets(st.integers(0, 20)), min_size=1), st.floats(0, 50), st.floats(-1, 1))
def test_every_score_lies_between_zero_and_one(holders: list[set[int]], bm25: float, cosine: float) -> None:
    for covered in ranking.coverage(range(21), 21, holders).values():
        lexical = ranking.lexical(covered, bm25, max(bm25, 1.0))
        assert 0 <= covered <= 1.000001
        assert 0 <= lexical < 1
        assert 0 <= ranking.blend(lexical, cosine) <= 1


def test_a_memory_covers_the_words_it_holds_the_rare_ones_most() -> None:
    shares = ranking.coverage([1, 2, 3], 100, [{1}, {1, 2, *range(4, 50)}])
    assert shares[1] == pytest.approx(1.0)
    assert 0 < shares[2] < 0.5
    assert shares[3] == 0.0


def test_a_word_that_nobody_holds_counts_like_the_others() -> None:
    assert ranking.coverage([1], 1, [{1}, set()]) == {1: pytest.approx(0.5)}
    assert ranking.coverage([1], 1, [set()]) == {1: 0.0}


def test_common_words_count_only_among_many_memories() -> None:
    assert ranking.common_from(10) == 11
    assert ranking.common_from(10_000) == 501
