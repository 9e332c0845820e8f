"""Limits the open sessions with a handshake. If there are too many, an idle one ends."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Open:
    user: str
    end: Callable[[], object]
    used_at: float
    requests: int = 0  # under way, open streams included

    @property
    def rank(self) -> tuple[bool, float]:
        """The lowest ends first: without a request before those with one, then the longest idle."""
        return self.requests > 0, self.used_at


class OpenSessions:
    """Used inside one event loop only."""

    def __init__(self, *, max_per_user: int, max_total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._max_per_user = max_per_user
        self._max_total = max_total
        self._now = now
        self._open: dict[str, _Open] = {}
        self._by_user: Counter[str] = Counter()

    def add(self, session_id: str, user: str, end: Callable[[], object]) -> None:
        """`end` is called when the session must end: if its user has too many, or if all users together have too many
        and its user has the most."""
        self._open[session_id] = _Open(user, end, self._now())
        self._by_user[user] += 1
        if self._by_user[user] > self._max_per_user:
            self._end_idle(user, session_id)
        if len(self._open) > self._max_total:
            self._end_idle(max(self._by_user, key=self._by_user.__getitem__), session_id)

    def touch(self, session_id: str) -> None:
        if found := self._open.get(session_id):
            found.used_at = self._now()

    @contextmanager
    def request(self, session_id: str | None) -> Iterator[None]:
        """Count the session as in use during the block."""
        found = self._open.get(session_id or "")
        if found is None:
            yield
            return
        found.requests += 1
        try:
            yield
        finally:
            found.requests -= 1
            found.used_at = self._now()

    def remove(self, session_id: str) -> None:
        if found := self._open.pop(session_id, None):
            self._by_user[found.user] -= 1
            if not self._by_user[found.user]:
                del self._by_user[found.user]

    def _end_idle(self, user: str, newest: str) -> None:
        others = [id_ for id_, session in self._open.items() if session.user == user and id_ != newest]
        if others:
            idle = min(others, key=lambda id_: self._open[id_].rank)
            end = self._open[idle].end
            self.remove(idle)
            end()
