import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.services.embedding import RelevanceFloor
from memory_mcp.services.search import ranking

counts = st.integers(0, 10_000)


@given(counts, counts)
def test_a_words_weight_is_positive_and_falls_with_its_frequency(documents: int, containing: int) -> None:
    containing = min(containing, documents)
    assert ranking.weight(documents, containing) > 0
    if containing:
        assert ranking.weight(documents, containing) < ranking.weight(documents, containing - 1)


holdings = st.dictionaries(st.integers(0, 20), st.floats(0, 1))


@given(st.lists(holdings, min_size=1), st.floats(0, 50), st.floats(-1, 1))
def test_every_score_lies_between_zero_and_one(holders: list[dict[int, float]], bm25: float, cosine: float) -> None:
    counted = [(len(held), held) for held in holders]
    for covered in ranking.coverage(range(21), 21, counted).values():
        lexical = ranking.lexical(covered, bm25, max(bm25, 1.0))
        assert 0 <= covered <= 1.000001
        assert 0 <= lexical < 1
        assert 0 <= ranking.blend(lexical, cosine) <= 1


def test_rare_words_cover_more_of_a_query() -> None:
    shares = ranking.coverage([1, 2, 3], 100, [(1, {1: 1.0}), (48, {1: 1.0, 2: 1.0})])
    assert shares[1] == pytest.approx(1.0)
    assert 0 < shares[2] < 0.5
    assert shares[3] == 0.0


def test_a_word_in_no_memory_has_average_weight() -> None:
    assert ranking.coverage([1], 1, [(1, {1: 1.0}), (0, {})]) == {1: pytest.approx(0.5)}
    assert ranking.coverage([1], 1, [(0, {})]) == {1: 0.0}


def test_common_words_count_only_among_many_memories() -> None:
    assert ranking.common_from(10) == 11
    assert ranking.common_from(999) == 1000
    assert ranking.common_from(1000) == 201
    assert ranking.common_from(10_000) == 1001
    assert ranking.common_from(100_000) == 5001


def test_a_word_only_in_the_context_counts_less() -> None:
    shares = ranking.coverage([1, 2], 10, [(2, {1: 1.0, 2: 0.6})])
    assert shares == {1: pytest.approx(1.0), 2: pytest.approx(0.6)}


@given(st.one_of(st.none(), st.floats(0, 1)), st.one_of(st.none(), st.floats(0, 1)), st.floats(0, 1))
def test_missing_parts_leave_their_weight_to_the_others(
    cosine: float | None, lexical: float | None, importance: float
) -> None:
    assert 0 <= ranking.score(cosine, lexical, importance) <= 1.000001
    assert ranking.score(None if cosine is None else 1.0, None if lexical is None else 1.0, 1.0) == pytest.approx(1.0)


def test_the_score_is_the_formula_of_the_spec() -> None:
    assert ranking.score(0.8, 0.6, 0.5) == pytest.approx(0.55 * 0.8 + 0.35 * 0.6 + 0.10 * 0.5)
    assert ranking.score(None, 0.6, 0.5) == pytest.approx((0.35 * 0.6 + 0.10 * 0.5) / 0.45)


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_the_cosine_part_stays_in_bounds(own: float, context: float) -> None:
    assert 0 <= ranking.cosine_part(own, context) <= 1
    assert ranking.cosine_part(own + 1, context) >= ranking.cosine_part(own, context)
    both_questions, labelled = ranking.TextForm(are_both_questions=True), ranking.TextForm(is_labelled=True)
    plain = ranking.cosine_part(own, context)
    assert 0 <= ranking.cosine_part(own, context, both_questions) <= plain
    assert plain <= ranking.cosine_part(own, context, labelled) <= 1


def test_the_note_before_counts_more_if_it_is_a_question() -> None:
    assert ranking.cosine_part(1, 3, ranking.TextForm(is_answer=True)) > ranking.cosine_part(1, 3)
    assert (
        ranking.covered_with_context(0.6, 0.3, is_answer=True)
        > 0.6
        > ranking.covered_with_context(0.6, 0.3, is_answer=False)
    )
    assert ranking.covered_with_context(0.6, 0.6, is_answer=True) <= 1
    assert ranking.context_cosine(0.4, 0.8, is_answer=True) > ranking.context_cosine(0.4, 0.8, is_answer=False) > 0.4


def test_the_nearest_of_many_texts_must_be_nearer_than_a_single_one() -> None:
    floor = RelevanceFloor(
        for_one_text=0.3,
        per_log_count=0.01,
        max_count=1000,
        background_share=0.5,
        max_short_bytes=300,
        meaningless=(),
    )
    background = np.array([0.3, 0.5], dtype=np.float32)
    assert ranking.fits(floor, 0.501, 1, background)
    assert not ranking.fits(floor, 0.499, 1, background)
    assert ranking.fits(floor, 0.57, 1000, background)
    assert not ranking.fits(floor, 0.56, 1000, background)
    assert ranking.fits(floor, 0.57, 10**6, background)
    assert not ranking.fits(floor, 0.501, 1, background + np.float32(0.1))


def test_a_single_note_is_enough_for_cosine_statistics() -> None:
    background = np.array([0.4, 0.5, 0.6], dtype=np.float32)
    usual = ranking.CosineStatistics.of(np.array([0.9], dtype=np.float32), background)
    assert usual.z(0.9) > 1 > usual.z(0.6)
    assert ranking.CosineStatistics.of(np.ones(3, dtype=np.float32), np.ones(2, dtype=np.float32)).z(
        1.0
    ) == pytest.approx(0)


def test_a_session_is_as_good_as_its_two_best_hits() -> None:
    scores = {1: 0.8, 2: 0.6, 3: 0.1, 4: 0.75, 5: 0.65, 6: 0.5}
    sessions = {1: "first", 2: "first", 3: "first", 4: "second"}
    distances = ranking.session_distances(scores, sessions)
    expected = {1: 0.05, 2: 0.05, 3: 0.05, 4: 0.0, 5: 0.1, 6: 0.25}
    assert distances == pytest.approx(expected)  # the first session has 0.7, the second 0.75
    assert ranking.session_distances({}, {}) == {}


def test_hits_of_one_session_keep_their_scores() -> None:
    distances = ranking.session_distances({1: 0.8, 2: 0.2}, {1: "only", 2: "only"})
    assert [ranking.cosine_in_session(0.4, distance) for distance in distances.values()] == [0.4, 0.4]
    assert ranking.cosine_in_session(0.1, 0.5) == 0.0
