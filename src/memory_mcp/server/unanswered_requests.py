"""The HTTP requests that a server still has to answer when it ends."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class UnansweredRequests:
    """Counts requests that are being answered. Once the server ends, no other is begun. Used inside one event loop
    only."""

    def __init__(self) -> None:
        self.is_ending = False
        self._count = 0
        self._all_answered = asyncio.Event()

    def end(self) -> None:
        self.is_ending = True

    @contextmanager
    def count(self) -> Iterator[None]:
        self._count += 1
        self._all_answered.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._all_answered.set()

    async def wait_until_answered(self, timeout_s: float) -> None:
        """Return when all of them are answered, or after `timeout_s`."""
        if self._count:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_answered.wait(), timeout_s)
