"""Cosines that are estimated from bits, next to those that are all known."""

import numpy as np
import pytest

from memory_mcp.services.search import cosines as module
from memory_mcp.services.search import sign_bits
from memory_mcp.services.search.cosines import EstimatedCosines, KnownCosines, SortedRows, centred
from memory_mcp.services.search.ranking import CosineStatistics
from memory_mcp.services.search.vectors import Floats, Numbers

DIMENSIONS = 200  # not a multiple of 64
COUNT = 30_000
BACKGROUND = np.full(8, 0.3, dtype=np.float32)


@pytest.fixture(scope="module")
def vectors() -> Floats:
    """Those of texts: most are a little alike, some are near to others."""
    random = np.random.default_rng(1)
    topics = random.standard_normal((500, DIMENSIONS))
    found = topics[random.integers(0, len(topics), COUNT)] + 0.7 * random.standard_normal((COUNT, DIMENSIONS)) + 0.6
    units: Floats = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    return units


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_CANDIDATES", 2000)


def both(vectors: Floats, query: Floats) -> tuple[KnownCosines, EstimatedCosines]:
    owners = np.arange(len(vectors)) // 2  # each memory has two chunks
    mean = vectors.mean(axis=0)
    bits, query_bits = sign_bits.columns(vectors, mean), sign_bits.columns(query[None], mean)[:, 0]
    rows = SortedRows(owners)
    return KnownCosines(owners, rows, vectors @ query), EstimatedCosines(owners, rows, query, vectors, bits, query_bits)


def queries(vectors: Floats) -> list[Floats]:
    random = np.random.default_rng(2)
    near = vectors[random.integers(0, len(vectors), 40)] + 0.05 * random.standard_normal((40, DIMENSIONS))
    return [(one / np.linalg.norm(one)).astype(np.float32) for one in near]


def shares_found(vectors: Floats, rows: Numbers | None) -> list[float]:
    shares = []
    for query in queries(vectors):
        known, estimated = both(vectors, query)
        best = known.nearest(10, rows)
        shares.append(len({*best} & {*estimated.nearest(10, rows)}) / 10)
    return shares


def test_estimated_search_finds_what_exact_search_finds(vectors: Floats) -> None:
    assert np.mean(shares_found(vectors, None)) >= 0.99


def test_a_filter_applies_before_candidates_are_chosen(vectors: Floats) -> None:
    assert np.mean(shares_found(vectors, np.arange(3, COUNT, 7))) >= 0.99
    assert np.mean(shares_found(vectors, np.arange(5, COUNT, 100))) == 1.0


def test_the_cosines_of_what_is_found_are_exact(vectors: Floats) -> None:
    known, estimated = both(vectors, queries(vectors)[0])
    found = estimated.nearest(20)
    exact = known.of(found)
    for owner, (cosine, chunk) in estimated.of(found).items():
        assert cosine == pytest.approx(exact[owner][0], abs=1e-6)
        assert chunk == exact[owner][1]
    assert estimated.nearest(20, min_cosine=exact[found[4]][0] - 1e-6) == found[:5]


@pytest.mark.parametrize("rows", [None, np.arange(1, COUNT, 3), np.arange(0, COUNT, 60)], ids=["all", "third", "few"])
def test_mean_and_deviation_are_those_of_all_vectors(vectors: Floats, rows: Numbers | None) -> None:
    for query in queries(vectors)[:10]:
        known, estimated = (one.statistics(rows, BACKGROUND) for one in both(vectors, query))
        assert estimated.mean == pytest.approx(known.mean, abs=0.05 * known.deviation)
        assert estimated.deviation == pytest.approx(known.deviation, rel=0.05)


def test_nothing_that_is_allowed_is_found_among_nothing(vectors: Floats) -> None:
    none = np.empty(0, dtype=np.int64)
    _, estimated = both(vectors, vectors[0])
    assert estimated.nearest(5, none) == []
    assert estimated.statistics(none, BACKGROUND).mean == pytest.approx(0.3)


def test_a_text_that_is_near_everything_comes_later() -> None:
    common, own, *others = np.eye(DIMENSIONS, dtype=np.float32)
    texts = np.stack([0.6 * common + 0.8 * other for other in others])
    query = 0.6 * common + 0.8 * own
    empty_phrase, answer = common, 0.2 * common + 0.54 * own + 0.8 * others[0]
    background = texts[:3]
    usual = CosineStatistics.of(texts @ query, background @ query)
    assert empty_phrase @ query > answer @ query

    vector, centred_usual = centred(query, usual, texts, background)
    assert answer @ vector > empty_phrase @ vector
    exact = CosineStatistics.of(texts @ vector, background @ vector)
    assert (centred_usual.mean, centred_usual.deviation) == pytest.approx((exact.mean, exact.deviation), abs=1e-6)


@pytest.mark.parametrize("rows", [None, np.arange(1, COUNT, 3), np.arange(10), np.empty(0, dtype=np.int64)])
def test_a_sample_has_rows_of_those_that_are_allowed(vectors: Floats, rows: Numbers | None) -> None:
    known, _ = both(vectors, vectors[0])
    sample = known.sample(rows)
    allowed = np.arange(COUNT) if rows is None else rows
    assert set(sample.tolist()) <= set(allowed.tolist())
    assert min(len(allowed), 256) <= len(sample) <= 512


def test_a_single_text_is_enough() -> None:
    background = np.eye(DIMENSIONS, dtype=np.float32)[:5]
    query, none = background[0], np.empty((0, DIMENSIONS), dtype=np.float32)
    vector, usual = centred(query, CosineStatistics.of(none @ query, background @ query), none, background)
    assert np.isfinite(vector).all()
    assert np.isfinite(usual.z(1.0))
