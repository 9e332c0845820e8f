"""Slows down refusals per address, so that a flood of bad requests costs little."""

import asyncio
import time
from collections.abc import Callable

RATE_PER_S = 20.0  # refusals that one address gets
BURST = 40  # that it gets at once
MAX_ADDRESSES = 10_000  # remembered


class RefusalPace:
    """Delays refusals beyond a rate. An address has a limited number of connections, each waits for its answer, so the
    server refuses no more than that rate."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due_at: dict[str, float] = {}  # when the next refusal of an address is due, oldest first

    async def wait(self, address: str) -> None:
        if (delay_s := self.delay_s(address)) > 0:
            await asyncio.sleep(delay_s)

    def delay_s(self, address: str) -> float:
        """Count one refusal, and say how long it has to wait."""
        now = self._now()
        due_at = max(self._due_at.pop(address, now), now)
        self._due_at[address] = due_at + 1 / RATE_PER_S
        while len(self._due_at) > MAX_ADDRESSES:
            del self._due_at[next(iter(self._due_at))]
        return due_at - now - BURST / RATE_PER_S
