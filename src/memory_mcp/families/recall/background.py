"""Work in the background that nobody has to wait for to the end, and that ends with the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from memory_mcp.caller import Caller

T = TypeVar("T")
Follow = Callable[[Caller], None]


def begun(work: Callable[[], T], name: str) -> "Future[T]":
    """Start it now. A thread that hangs keeps no process from ending, as one of a pool would."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # noqa: BLE001  # whoever waits for it is told
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class BackgroundIndexer:
    """Does one thing for each user, once at a time. Who asks for it while it is being done, and may have changed
    something since it began, waits for the next time, together with all others who do."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._guard = threading.Lock()
        self._next: dict[str, Future[None]] = {}  # what is asked for and not begun
        self._running: dict[str, threading.Thread] = {}

    def ask(self, caller: Caller) -> "Future[None]":
        with self._guard:
            if caller.user not in self._next:
                self._next[caller.user] = Future()
            if caller.user not in self._running:
                thread = threading.Thread(target=self._run, args=(caller,), name="recall", daemon=True)
                self._running[caller.user] = thread
                thread.start()
            return self._next[caller.user]

    def join(self, seconds: float) -> None:
        """Wait for what is being done, but not for long."""
        with self._guard:
            running = list(self._running.values())
        for thread in running:
            thread.join(timeout=seconds)

    def _run(self, caller: Caller) -> None:
        while asked := self._begin(caller.user):
            try:
                self._follow(caller)
            except BaseException as exc:  # noqa: BLE001  # whoever waits for it is told
                asked.set_exception(exc)
            else:
                asked.set_result(None)

    def _begin(self, user: str) -> "Future[None] | None":
        with self._guard:
            if user not in self._next:
                del self._running[user]
            return self._next.pop(user, None)
