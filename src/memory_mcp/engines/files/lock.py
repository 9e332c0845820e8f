"""Locks on files and folders, among all threads of all processes. The system frees them however a process ends.

SQLite's own waiting is unfair: with eight writing processes it lets one wait up to 3 s; here the longest wait was 0.1 s
(`make bench`). No other module uses `fcntl` or `filelock`.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_mcp.errors import Unavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # the module is simply absent there

LOCK_TIMEOUT_S = 30.0  # only a writer that hangs makes others wait this long
POLL_INTERVAL_S = 0.0005  # short, so that a lock is acquired soon after it is free
MAX_POLL_INTERVAL_S = 0.05
POLL_SHARE = 1 / 10  # of the time that was waited: who waits for long polls less often


class FileLock:
    """An exclusive lock on a file, which is created if it is missing, or on a folder, in which nothing is left.

    The threads that share one of these wait for each other without polling.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.Lock()

    @contextmanager
    def acquire(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the lock for the block. Raises Unavailable if it is not free within `timeout_s`."""
        with self.try_acquire(timeout_s) as is_held:
            if not is_held:
                raise Unavailable(
                    "Another process has been writing to this memory for too long. Nothing was changed; stop it or "
                    "try again."
                )
            yield

    @contextmanager
    def try_acquire(self, timeout_s: float = 0.0) -> Iterator[bool]:
        """Hold the lock for the block, if it is free within `timeout_s`. Yields whether it is held."""
        deadline = time.monotonic() + timeout_s
        if not self._threads.acquire(timeout=timeout_s):
            yield False
            return
        try:
            with self._filelock(deadline) if fcntl is None else self._flock(deadline) as is_held:
                yield is_held
        finally:
            self._threads.release()

    def note(self) -> str:
        """What the last process that held the lock has written to its file."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def write_note(self, text: str) -> None:
        """Write to the lock's file, for the next process that holds the lock. Only while holding it."""
        if self.note() != text:
            self.path.write_text(text, encoding="utf-8")

    @contextmanager
    def _flock(self, deadline: float) -> Iterator[bool]:
        # Opened each time: flock belongs to the open file, and a file that was removed must not be kept.
        handle = self._open()
        try:
            while (is_held := lock_handle(handle, deadline - time.monotonic())) and not self._is_in_place(handle):
                os.close(handle)  # it was removed or replaced while this waited for it
                handle = self._open()
            yield is_held
        finally:
            os.close(handle)  # which frees the lock

    def _is_in_place(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    def _open(self) -> int:
        if self.path.is_dir():
            return os.open(self.path, os.O_RDONLY)
        return os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def _filelock(self, deadline: float) -> Iterator[bool]:
        import filelock

        path = self.path / ".memory-mcp.lock" if self.path.is_dir() else self.path
        lock = filelock.FileLock(path, mode=0o600, thread_local=False, poll_interval=POLL_INTERVAL_S)
        try:
            lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
        except filelock.Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def lock_handle(
    handle: int, timeout_s: float, *, shared: bool = False, poll_interval_s: float = POLL_INTERVAL_S
) -> bool:
    """Lock an open file or folder until its last handle is closed. Whether it was free within `timeout_s`.

    Without `flock` (Windows) nothing is locked.
    """
    if fcntl is None:
        return True
    started = time.monotonic()
    while True:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if (waited_s := time.monotonic() - started) >= timeout_s:
                return False
            time.sleep(max(poll_interval_s, min(waited_s * POLL_SHARE, MAX_POLL_INTERVAL_S)))
        else:
            return True


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock a folder that only this process uses, so that others see that the process runs."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock_handle(handle, LOCK_TIMEOUT_S)
        yield
    finally:
        os.close(handle)


def is_free(path: Path) -> bool:
    """Whether no process holds a file or folder. False where that cannot be known."""
    if fcntl is None:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return lock_handle(handle, 0.0)
    finally:
        os.close(handle)
