"""How much of the processor an engine gets while other processes want it: less if it has recently used much.

Engines of several users share one machine with the servers. One that computes without a pause must delay neither the
servers nor the small queries of other users, so its priority is low for as long as it does so.
"""

import os
import time
from collections.abc import Callable

from memory_mcp.engines.isolation.launch import total_niceness
from memory_mcp.system.operating_system import set_priority

BUSY_NICENESS = 15  # of an engine that computes without a pause; it gets a twentieth of what the others get
YIELDING_NICENESS = 8  # from which on an engine of a server over HTTP gets only processors that no other wants
POLL_INTERVAL_S = 0.25
MAX_REQUEST_S = 0.5  # processor time of one request; beyond, its engine is busy
MAX_LOAD = 0.5  # processors that an engine uses on average; beyond, it is busy with many small requests
MIN_LOAD = 0.1  # below, it is no longer busy
MAX_ROUNDS = 5  # over all threads of a process, to set their niceness
HALF_LIFE_S = 1.0  # after which what an engine has used counts half in the average


class Load:
    """How many processors this process uses: an exponential moving average."""

    def __init__(self) -> None:
        self.processors = 0.0
        self._used_s = time.process_time()
        self._at = time.monotonic()

    def update(self) -> None:
        used_s, at = time.process_time(), time.monotonic()
        if (span_s := at - self._at) <= 0:
            return
        kept = 0.5 ** (span_s / HALF_LIFE_S)
        self.processors = kept * self.processors + (1 - kept) * (used_s - self._used_s) / span_s
        self._used_s, self._at = used_s, at


class Priority:
    """The priority of this process. Create it before the sandbox is entered, which makes /proc unreadable."""

    def __init__(self, server_niceness: int, *, yields_when_busy: bool) -> None:
        self._server_niceness = server_niceness
        self._yields_when_busy = yields_when_busy
        try:
            self._threads: int | None = os.open("/proc/self/task", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # no Linux
            self._threads = None

    def adjust(self, start: int, request_s: Callable[[], float]) -> None:
        """Keep the priority low while this process uses much of the processor. Does not return.

        `request_s` is the processor time that the longest open request has taken: on a machine that has too much to do,
        an engine may get less than MAX_LOAD however much it wants.
        `start` is the niceness that the process was started with, and keeps at least. Where the process may not
        raise its priority again, it stays low.
        """
        busy = max(start, BUSY_NICENESS)
        load, is_busy = Load(), False
        self._set(start)
        while True:
            time.sleep(POLL_INTERVAL_S)
            load.update()
            is_long = request_s() > MAX_REQUEST_S
            if not is_busy and (is_long or load.processors > MAX_LOAD):
                is_busy = True
                self._set(busy)
            elif is_busy and not is_long and load.processors < MIN_LOAD:
                is_busy = False
                self._set(start)

    def _set(self, niceness: int) -> None:
        """Set the niceness, beyond the server's, of all threads and of those they start.

        Several rounds: meanwhile a thread may start another, which has the niceness that its own had until then.
        """
        total = total_niceness(niceness, self._server_niceness)
        yields = must_yield(niceness, yields_when_busy=self._yields_when_busy)
        for _ in range(MAX_ROUNDS):
            if sum(_set_of_thread(thread, total, yields=yields) for thread in self._all_threads()) == 0:
                return

    def _all_threads(self) -> list[int]:
        threads = ["0"] if self._threads is None else os.listdir(self._threads)  # noqa: PTH208  # its path is closed
        return [int(thread) for thread in threads]


def must_yield(niceness: int, *, yields_when_busy: bool) -> bool:
    """Whether an engine gets only processors that no other process wants. On a machine that one person works at, a
    build in another window would stop such an engine for minutes."""
    return yields_when_busy and niceness >= YIELDING_NICENESS


def _set_of_thread(thread: int, niceness: int, *, yields: bool) -> bool:
    """Whether it had another niceness before."""
    try:
        return set_priority(thread, niceness, yields=yields)
    except OSError:  # it has just ended, or this process may not raise its priority
        return False
