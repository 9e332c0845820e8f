"""Background threads that do not delay callers or the end of the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from memory_mcp.caller import Caller

T = TypeVar("T")
UpdateIndex = Callable[[Caller], None]


def run_in_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Start `work` now. Unlike a thread of a pool, one that hangs does not keep the process from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # noqa: BLE001  # raised where the result is awaited
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class BackgroundIndexer:
    """Runs one function for each user, one run at a time. A request during a run, which may have missed the latest
    change, waits for the next run, together with all other such requests."""

    def __init__(self, update_index: UpdateIndex) -> None:
        self._update_index = update_index
        self._lock = threading.Lock()
        self._next: dict[str, Future[None]] = {}  # requested and not started
        self._running: dict[str, threading.Thread] = {}

    def request(self, caller: Caller) -> "Future[None]":
        with self._lock:
            if caller.user not in self._next:
                self._next[caller.user] = Future()
            if caller.user not in self._running:
                thread = threading.Thread(target=self._run, args=(caller,), name="recall", daemon=True)
                self._running[caller.user] = thread
                thread.start()
            return self._next[caller.user]

    def join(self, seconds: float) -> None:
        """Wait for the current runs, each at most this long."""
        with self._lock:
            running = list(self._running.values())
        for thread in running:
            thread.join(timeout=seconds)

    def _run(self, caller: Caller) -> None:
        while requested := self._begin(caller.user):
            try:
                self._update_index(caller)
            except BaseException as exc:  # noqa: BLE001  # raised where the result is awaited
                requested.set_exception(exc)
            else:
                requested.set_result(None)

    def _begin(self, user: str) -> "Future[None] | None":
        with self._lock:
            if user not in self._next:
                del self._running[user]
            return self._next.pop(user, None)
