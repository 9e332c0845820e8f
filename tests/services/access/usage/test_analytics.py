from datetime import timedelta

import pytest

from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import Unavailable
from memory_mcp.services.access.storage import users
from memory_mcp.services.access.usage import Analytics, Coverage
from tests.conftest import Clock


@pytest.fixture
def db(db: SharedDatabase) -> SharedDatabase:
    with db.write() as tx:
        for name in ("ann", "bob"):
            users.add(tx, name, name, "community")
    return db


def analytics(db: SharedDatabase, clock: Clock, coverage: Coverage | None = None) -> Analytics:
    return Analytics(db, lambda user: coverage, clock)


def counts(analytics: Analytics, user: str = "ann", days: int = 30) -> list[tuple[str, int, int]]:
    return [(hour.hour, hour.calls, hour.errors) for hour in analytics.history(user, days)]


def test_calls_and_errors_are_counted_by_the_hour(db: SharedDatabase, clock: Clock) -> None:
    usage = analytics(db, clock)
    for is_error in (False, False, True):
        usage.count("ann", is_error=is_error)
    usage.count("bob", is_error=True)
    clock.now += timedelta(hours=1)
    usage.count("ann", is_error=False)

    assert counts(usage) == [("2030-01-01T12:00:00Z", 3, 1), ("2030-01-01T13:00:00Z", 1, 0)]
    assert counts(usage, "bob") == [("2030-01-01T12:00:00Z", 1, 1)]
    assert counts(usage, "stranger") == []


def test_counts_of_several_servers_add_up(db: SharedDatabase, clock: Clock) -> None:
    one, other = analytics(db, clock), analytics(db, clock)
    for usage in (one, other, one):
        usage.count("ann", is_error=usage is other)
        usage.flush()
        usage.flush()  # nothing is counted twice
    assert counts(other) == [("2030-01-01T12:00:00Z", 3, 1)]


def test_coverage_is_stored_where_it_is_known(db: SharedDatabase, clock: Clock) -> None:
    seen: list[Coverage | None] = [Coverage(3, 1), None, Coverage(4, 4)]
    usage = Analytics(db, lambda user: seen.pop(0), clock)
    for _ in range(2):
        usage.count("ann", is_error=False)
        usage.flush()
    (hour,) = usage.history("ann", 1)
    assert (hour.notes, hour.embedded) == (3, 1)  # the last known values
    clock.now += timedelta(hours=1)
    usage.count("ann", is_error=False)
    assert [(hour.notes, hour.embedded) for hour in usage.history("ann", 1)] == [(3, 1), (4, 4)]


def test_counts_that_cannot_be_stored_are_stored_later(
    db: SharedDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = analytics(db, clock)
    usage.count("ann", is_error=True)
    with monkeypatch.context() as breaking:
        breaking.setattr(db, "write", _busy)
        with pytest.raises(Unavailable):
            usage.flush()
    usage.count("ann", is_error=False)
    assert counts(usage) == [("2030-01-01T12:00:00Z", 2, 1)]


def _busy() -> None:
    raise Unavailable("It is busy.")


def test_history_has_the_requested_days_up_to_400(db: SharedDatabase, clock: Clock) -> None:
    usage = analytics(db, clock)
    usage.count("ann", is_error=False)
    usage.flush()
    clock.now += timedelta(days=10)
    usage.count("ann", is_error=False)
    assert len(counts(usage, days=11)) == 2
    assert len(counts(usage, days=9)) == 1
    clock.now += timedelta(days=391)
    usage.count("bob", is_error=False)
    assert len(counts(usage, days=1000)) == 1  # the other is over 400 days old


def test_history_is_bounded_to_400_days_of_hours(db: SharedDatabase, clock: Clock) -> None:
    usage = analytics(db, clock, Coverage(3, 1))
    for _ in range(20):
        for _ in range(30 * 24):
            clock.now += timedelta(hours=1)
            for user in ("ann", "ann", "bob"):
                usage.count(user, is_error=False)
        usage.flush()
    with db.read() as tx:
        kept = tx.all("SELECT user_id, count(*), sum(calls) FROM usage GROUP BY user_id ORDER BY user_id")
    hours = 400 * 24 + 1
    assert kept == [("ann", hours, 2 * hours), ("bob", hours, hours)]
    assert len(usage.history("ann", 400)) == hours
