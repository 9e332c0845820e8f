import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.services.access import Limits
from memory_mcp.services.sessions import live_db
from tests.exhaustive import rounds
from tests.postgres import shared_database

opened = partial(shared_database, live_db.FILE)
LIMIT, WINDOW = 6, 60.0
EVERY = WINDOW / LIMIT


class Seconds:
    """A clock in seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def test_a_burst_up_to_the_limit_passes_and_the_next_is_refused(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    remaining = [limits.take("ann", LIMIT).remaining for _ in range(LIMIT)]
    assert remaining == [5, 4, 3, 2, 1, 0]

    spent = limits.take("ann", LIMIT)
    assert spent.is_spent
    assert (spent.limit, spent.remaining) == (LIMIT, 0)
    assert spent.retry_after == pytest.approx(EVERY)
    assert spent.reset_after == pytest.approx(WINDOW)


def test_retry_after_is_exact(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    for _ in range(LIMIT):
        limits.take("ann", LIMIT)
    wait = limits.take("ann", LIMIT).retry_after
    seconds.now += wait - 0.01
    assert limits.take("ann", LIMIT).is_spent
    seconds.now += 0.01 + 1e-6
    assert not limits.take("ann", LIMIT).is_spent
    assert limits.take("ann", LIMIT).is_spent


def test_a_refused_request_is_not_counted(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    for _ in range(LIMIT + 50):
        limits.take("ann", LIMIT)
    seconds.now += EVERY + 1e-6
    assert not limits.take("ann", LIMIT).is_spent


def test_after_a_window_the_full_limit_is_available(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    for _ in range(LIMIT):
        limits.take("ann", LIMIT)
    seconds.now += WINDOW
    assert [limits.take("ann", LIMIT).is_spent for _ in range(LIMIT + 1)] == [False] * LIMIT + [True]


def test_limits_are_separate_per_user(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    for _ in range(LIMIT):
        limits.take("ann", LIMIT)
    assert limits.take("bob", LIMIT).remaining == LIMIT - 1


def test_two_processes_count_together(tmp_path: Path, seconds: Seconds, chosen_engine_url: str | None) -> None:
    """Two connections to one database, as two servers have them, asked by several threads at once."""
    let_through: list[bool] = []
    with opened(tmp_path, chosen_engine_url) as one, opened(tmp_path, chosen_engine_url) as other:
        both = [Limits(one, seconds), Limits(other, seconds)]

        def ask(limits: Limits) -> None:
            for _ in range(10):
                let_through.append(not limits.take("ann", 20).is_spent)

        threads = [threading.Thread(target=ask, args=(limits,)) for limits in both * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(let_through) == 40
    assert sum(let_through) == 20


def test_a_clock_set_back_delays_callers_no_longer_than_a_window(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    for _ in range(LIMIT):
        limits.take("ann", LIMIT)
    seconds.now -= 3600
    assert limits.take("ann", LIMIT).retry_after <= EVERY + 1e-6
    seconds.now += EVERY + 1e-3
    assert not limits.take("ann", LIMIT).is_spent


def test_only_rows_with_a_full_allowance_are_deleted(live: SharedDatabase, seconds: Seconds) -> None:
    limits = Limits(live, seconds)
    limits.take("old", LIMIT)
    seconds.now += EVERY + 1
    for _ in range(LIMIT):
        limits.take("new", LIMIT)
    limits.delete_unused()
    with live.read() as tx:
        assert tx.all("SELECT who FROM limits") == [("new",)]
    assert limits.take("new", LIMIT).is_spent


@settings(
    max_examples=rounds(30, soak=100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    limit=st.integers(1, 40),
    pauses=st.lists(st.one_of(st.just(0.0), st.floats(0, 5), st.floats(0, 90)), min_size=1, max_size=120),
    window=st.floats(0.001, 200),
)
def test_no_window_exceeds_the_limit_and_its_refill(limit: int, pauses: list[float], window: float) -> None:
    """However requests fall: in any stretch of time at most the whole limit at once, and one more for each
    sixtieth-of-a-minute share that passes meanwhile. And a client that keeps an even pace is never refused."""
    seconds = Seconds()
    passed: list[float] = []
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as db:
        limits = Limits(db, seconds)
        for pause in pauses:
            seconds.now += pause
            if not limits.take("ann", limit).is_spent:
                passed.append(seconds.now)
        for start in passed:
            inside = [at for at in passed if start <= at <= start + window]
            assert len(inside) <= limit + window * limit / WINDOW + 1e-6
        for _ in range(5):
            seconds.now += WINDOW / limit + 1e-6
            assert not limits.take("bob", limit).is_spent
