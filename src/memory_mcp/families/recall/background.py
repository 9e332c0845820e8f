"""Work in threads that no caller has to wait for to the end, and that ends with the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from memory_mcp.caller import Caller

T = TypeVar("T")
Follow = Callable[[Caller], None]


def run_in_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Start it now. A thread that hangs does not keep the process from ending, as one of a pool would."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # noqa: BLE001  # raised where the result is awaited
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class BackgroundIndexer:
    """Runs one function for each user, once at a time. A request that comes while it runs, after a change that it may
    have missed, waits for the next run, together with all others that do."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
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
        """Wait for the runs under way, each no longer than this."""
        with self._lock:
            running = list(self._running.values())
        for thread in running:
            thread.join(timeout=seconds)

    def _run(self, caller: Caller) -> None:
        while requested := self._begin(caller.user):
            try:
                self._follow(caller)
            except BaseException as exc:  # noqa: BLE001  # raised where the result is awaited
                requested.set_exception(exc)
            else:
                requested.set_result(None)

    def _begin(self, user: str) -> "Future[None] | None":
        with self._lock:
            if user not in self._next:
                del self._running[user]
            return self._next.pop(user, None)
