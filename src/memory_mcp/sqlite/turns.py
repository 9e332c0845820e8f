"""Write turns: processes queue for a database here, because SQLite's own waiting is unfair.

Measured in guides/scale.md: with eight writers the longest wait falls from 3 s to 0.2 s.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_mcp.errors import Unavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # the module is simply absent there

LONGEST_WAIT = 30.0  # seconds; only a writer that hangs makes anyone wait this long
PAUSE = 0.0005  # between two tries; short, so that a turn is taken soon after it is free


class Turns:
    """One turn at a time among all processes that write to one file. Threads of a process queue before this."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def take(self) -> Iterator[None]:
        """Hold the turn for the block. Raises Unavailable if it does not come."""
        with self._file_lock() if fcntl is None else self._flock():
            yield

    @contextmanager
    def _flock(self) -> Iterator[None]:
        # Opened for each turn: flock belongs to the open file, and a file somebody removed must not be kept.
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + LONGEST_WAIT
            while not self._try(handle):
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "Another process has been writing to this memory for too long. "
                        "Nothing was changed; stop that process or try again."
                    )
                time.sleep(PAUSE)
            yield
        finally:
            os.close(handle)  # and the turn with it

    @staticmethod
    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        import filelock

        try:
            with filelock.FileLock(self._path, timeout=LONGEST_WAIT, poll_interval=PAUSE):
                yield
        except filelock.Timeout as exc:
            raise Unavailable("Another process has been writing to this memory for too long. Try again.") from exc
