"""In which order the calls of one connection run: side by side, save those that change what later ones mean."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallOrder:
    """Clients send calls without waiting for answers. A call that steers the session, such as switch_project, waits for
    all before it, and all after it wait for it."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Event, bool] = {}  # set when done; whether it steers

    @asynccontextmanager
    async def turn(self, *, steers: bool) -> AsyncIterator[None]:
        """Enter in the order of arrival: nothing is awaited before the place in the line is taken."""
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
