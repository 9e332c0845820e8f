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


@given(st.lists(st.tuples(st.floats(0.01, 10), st.booleans()), min_size=1), st.floats(0, 50), st.floats(-1, 1))
def test_every_score_lies_between_zero_and_one(words: list[tuple[float, bool]], bm25: float, cosine: float) -> None:
    covered = ranking.coverage([weight for weight, _ in words], [held for _, held in words])
    lexical = ranking.lexical(covered, bm25, max(bm25, 1.0))
    assert 0 <= covered <= 1.000001
    assert 0 <= lexical < 1
    assert 0 <= ranking.blend(lexical, cosine) <= 1


def test_common_words_count_only_among_many_memories() -> None:
    assert ranking.common_from(10) == 11
    assert ranking.common_from(10_000) == 501
