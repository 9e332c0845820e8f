"""The order of the calls of one connection: concurrent, except those that change the meaning of later ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallOrder:
    """Clients send calls without waiting for answers. A call that steers the session, such as switch_project, waits for
    all before it, and all after it wait for it."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Event, bool] = {}  # set when done; whether it steers

    @asynccontextmanager
    async def enter(self, *, steers: bool) -> AsyncIterator[None]:
        """Enter in the order of arrival: the call is queued before anything is awaited."""
        before = [done for done, is_steering in self._under_way.items() if steers or is_steering]
        done = asyncio.Event()
        self._under_way[done] = steers
        try:
            for earlier in before:
                await earlier.wait()
            yield
        finally:
            del self._under_way[done]
            done.set()
