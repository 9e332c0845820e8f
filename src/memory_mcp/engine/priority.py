"""How much of the processor an engine gets when others want it, too: less the more it has used of late.

Engines of several users share one machine with the servers. One that computes without a pause must delay neither the
servers nor the small queries of other users, so its priority is low for as long as it does so.
"""

import os
import time
from contextlib import suppress

NORMAL = 2  # niceness, just below the servers
BUSY = 15  # of an engine that computes without a pause; it gets a twentieth of what the others get
LOWEST = 19
POLL_INTERVAL_S = 0.25
MAX_LOAD = 0.5  # processors that an engine uses on average before it counts as busy
MIN_LOAD = 0.1  # below which it no longer does
HALF_LIFE_S = 1.0  # after which what an engine has used counts half in the average


class Load:
    """How many processors a process uses, as an average that forgets."""

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
        self._threads = _open_or_none("/proc/self/task", os.O_RDONLY)
        self._session = _open_or_none("/proc/self/autogroup", os.O_WRONLY)

    def adjust(self, start: int) -> None:
        """Keep the priority low while this process uses much of the processor. Does not return.

        `start` is the niceness that the process was started with, and never falls below. Where the process may not
        raise its priority again, it stays low.
        """
        load, wanted, is_set = Load(), max(start, NORMAL), False
        while True:
            busy = max(start, BUSY)
            if load.processors > MAX_LOAD and wanted != busy:
                wanted, is_set = busy, False
            elif load.processors < MIN_LOAD and wanted == busy:
                wanted, is_set = max(start, NORMAL), False
            is_set = is_set or self.set(wanted)
            time.sleep(POLL_INTERVAL_S)
            load.update()

    def set(self, niceness: int) -> bool:
        """Set the niceness of all threads, of those they start, and of the session: where autogroups are on, Linux
        shares the processor between sessions first. Whether all could be set."""
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
