"""The order of the calls of one connection: concurrent, except those that change the meaning of later ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CallOrder:
    """Clients send calls without waiting for answers. A call that changes what later calls of its session mean, such as
    switch_project, is a barrier: it waits for all calls before it, and all after it wait for it."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Event, bool] = {}  # set when the call is done; whether it is a barrier

    @asynccontextmanager
    async def enter(self, *, is_barrier: bool) -> AsyncIterator[None]:
        """Enter in the order of arrival: the call is queued before anything is awaited."""
        before = [done for done, was_barrier in self._under_way.items() if is_barrier or was_barrier]
        done = asyncio.Event()
        self._under_way[done] = is_barrier
        try:
            for earlier in before:
                await earlier.wait()
            yield
        finally:
            del self._under_way[done]
            done.set()
