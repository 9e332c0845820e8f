"""The event loop of a server over HTTP, which shares the interpreter with threads that compute."""

import asyncio
import selectors
import sys

from memory_mcp.system import operating_system

LOOP_WAITS_S = 0.0005  # after which a thread that computes lets the loop go on: each request would wait for it
THREAD_WAITS_S = 0.005  # after which the loop lets a thread go on, unless it has nothing to do before


class LoopSelector(selectors.DefaultSelector):
    """Python has one time after which a thread that runs gives way to one that waits. The one that waits reads it when
    it begins to. So it is short only while the loop waits for events: then a thread may run when the loop has to go on.
    While the loop runs it is long, or threads would interrupt each request several times."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        sys.setswitchinterval(LOOP_WAITS_S)
        try:
            return super().select(timeout)
        finally:
            sys.setswitchinterval(THREAD_WAITS_S)


def new_event_loop() -> asyncio.AbstractEventLoop:
    if not operating_system.THIS.is_posix:  # the event loop of Windows has no selector
        sys.setswitchinterval(LOOP_WAITS_S)
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(LoopSelector())
