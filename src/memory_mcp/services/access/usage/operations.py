import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from memory_mcp.clock import Clock, utc_now
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import Unavailable
from memory_mcp.services.access.usage import storage
from memory_mcp.services.access.usage.model import Coverage, Hour

RETENTION = timedelta(days=400)


class Analytics:
    """Calls are counted in memory and stored about once a minute: a server that is killed loses that much."""

    def __init__(self, db: SharedDatabase, coverage: Callable[[str], Coverage | None], clock: Clock = utc_now) -> None:
        """`coverage(user)` returns the current coverage, or None if it cannot be read."""
        self._db = db
        self._coverage = coverage
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()  # by user and hour
        self._errors: Counter[tuple[str, str]] = Counter()

    def count(self, user: str, *, is_error: bool) -> None:
        when = (user, _hour(self._clock()))
        with self._lock:
            self._calls[when] += 1
            self._errors[when] += is_error

    def flush(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, Counter()
            errors, self._errors = self._errors, Counter()
        if not calls:
            return
        try:
            self._add(calls, errors)
        except Unavailable:
            with self._lock:  # the next flush stores them
                self._calls.update(calls)
                self._errors.update(errors)
            raise

    def _add(self, calls: Counter[tuple[str, str]], errors: Counter[tuple[str, str]]) -> None:
        seen = {user: self._coverage(user) for user, _ in calls}
        with self._db.write() as tx:
            for (user, hour), number in calls.items():
                storage.add(tx, user, hour, number, errors[user, hour], seen[user])
            storage.delete_before(tx, _hour(self._clock() - RETENTION))

    def history(self, user: str, days: int) -> list[Hour]:
        with suppress(Unavailable):  # the newest counts are then missing
            self.flush()
        with self._db.read() as tx:
            return storage.since(tx, user, _hour(self._clock() - timedelta(days=days)))


def by_day(hours: Sequence[Hour]) -> list[Hour]:
    """One entry per day: the sum of its calls, and the notes at its end."""
    days: dict[str, Hour] = {}
    for one in hours:
        start = f"{one.hour[:10]}T00:00:00Z"
        day = days.get(start, Hour(start, 0, 0, None, None))
        days[start] = Hour(
            start,
            day.calls + one.calls,
            day.errors + one.errors,
            day.notes if one.notes is None else one.notes,
            day.embedded if one.embedded is None else one.embedded,
        )
    return list(days.values())


def _hour(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H")
