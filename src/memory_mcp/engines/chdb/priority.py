"""How much of the processor an engine gets while other processes want it: less if it has used much of late.

Engines of several users share one machine with the servers. One that computes without a pause must delay neither the
servers nor the small queries of other users, so its priority is low for as long as it does so.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress

NORMAL_NICENESS = 2  # more than the server's
BUSY_NICENESS = 15  # of an engine that computes without a pause; it gets a twentieth of what the others get
MAX_NICENESS = 19
POLL_INTERVAL_S = 0.25
MAX_REQUEST_S = 0.5  # processor time of one request; beyond, its engine is busy
MAX_LOAD = 0.5  # processors that an engine uses on average; beyond, it is busy with many small requests
MIN_LOAD = 0.1  # below, it is no longer busy
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

    def __init__(self) -> None:
        self._base = os.getpriority(os.PRIO_PROCESS, 0)  # the server's
        self._threads = _open_or_none("/proc/self/task", os.O_RDONLY)
        self._session = _open_or_none("/proc/self/autogroup", os.O_WRONLY)

    def adjust(self, start: int, request_s: Callable[[], float]) -> None:
        """Keep the priority low while this process uses much of the processor. Does not return.

        `request_s` is the processor time that the longest open request has taken: on a machine that has too much to do,
        an engine may get less than MAX_LOAD however much it wants.
        `start` is the niceness that the process was started with, and keeps at least. Where the process may not
        raise its priority again, it stays low.
        """
        load, wanted, is_set = Load(), max(start, NORMAL_NICENESS), False
        while True:
            normal, busy = max(start, NORMAL_NICENESS), max(start, BUSY_NICENESS)
            is_long = request_s() > MAX_REQUEST_S
            if wanted == normal and (is_long or load.processors > MAX_LOAD):
                wanted, is_set = busy, False
            elif wanted == busy and not is_long and load.processors < MIN_LOAD:
                wanted, is_set = normal, False
            is_set = is_set or self.set(wanted)
            time.sleep(POLL_INTERVAL_S)
            load.update()

    def set(self, niceness: int) -> bool:
        """Set the niceness, beyond the server's, of all threads, of those they start, and of the session: where
        autogroups are on, Linux shares the processor between sessions first. False if it has to be tried again."""
        niceness = min(MAX_NICENESS, self._base + niceness)
        threads = ["0"] if self._threads is None else os.listdir(self._threads)  # noqa: PTH208  # its path is closed
        for thread in threads:
            with suppress(OSError):  # it has just ended, or this process may not raise its priority
                os.setpriority(os.PRIO_PROCESS, int(thread), niceness)
        if self._session is None:
            return True
        try:
            os.write(self._session, str(niceness).encode())
        except BlockingIOError:  # Linux takes one change in 0.1 s, of all users together
            return False
        except OSError:
            return True
        return True


def _open_or_none(path: str, flags: int) -> int | None:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return None
