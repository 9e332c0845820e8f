"""Slows down what one caller does too often, so that a flood of it costs the others little."""

import asyncio
import time
from collections.abc import Callable

MAX_CALLERS = 10_000  # remembered


class Pace:
    """Delays what a caller does beyond a rate. A caller has a limited number of connections, each waits for its answer,
    so the server does no more for it than that rate."""

    def __init__(self, rate_per_s: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        """`burst`: how many are not delayed at once."""
        self._interval_s = 1 / rate_per_s
        self._burst_s = burst / rate_per_s
        self._now = now
        self._due_at: dict[str, float] = {}  # when the next one of a caller is due, oldest first

    async def wait(self, caller: str) -> None:
        if (delay_s := self.delay_s(caller)) > 0:
            await asyncio.sleep(delay_s)

    def delay_s(self, caller: str) -> float:
        """Count one, and say how long it has to wait."""
        now = self._now()
        due_at = max(self._due_at.pop(caller, now), now)
        self._due_at[caller] = due_at + self._interval_s
        while len(self._due_at) > MAX_CALLERS:
            del self._due_at[next(iter(self._due_at))]
        return due_at - now - self._burst_s
