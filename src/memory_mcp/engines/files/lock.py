"""Write turns: writers of a database or of a folder wait here.

SQLite's own waiting is unfair: with eight writing processes it lets one wait up to 3 s; here the longest wait was 0.1 s
(`make bench`).
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

LOCK_TIMEOUT_S = 30.0  # seconds; only a writer that hangs makes anyone wait this long
PAUSE = 0.0005  # between two tries; short, so that a turn is taken soon after it is free


class FileLocks:
    """One turn at a time among all threads of all processes that write to one file or folder.

    `path` is a file to lock, made if it is missing, or a folder, which is locked itself: nothing is left in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.Lock()

    @contextmanager
    def take(self, wait: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the turn for the block. Raises Unavailable if it does not come within `wait` seconds."""
        deadline = time.monotonic() + wait
        if not self._threads.acquire(timeout=wait):
            raise _too_long()
        try:
            with self._file_lock(deadline) if fcntl is None else self._flock(deadline):
                yield
        finally:
            self._threads.release()

    def note(self) -> str:
        """What the last holder of a turn noted for the next."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def make_note(self, text: str) -> None:
        """Leave word for whoever opens the file next. Only while holding the turn."""
        if self.note() != text:
            self.path.write_text(text, encoding="utf-8")

    @contextmanager
    def _flock(self, deadline: float) -> Iterator[None]:
        # Opened for each turn: flock belongs to the open file, and a file somebody removed must not be kept.
        handle = self._opened()
        try:
            while not (is_locked := self._try(handle)) or not self._is_in_place(handle):
                if is_locked:  # it was removed or replaced while this waited for it
                    os.close(handle)
                    handle = self._opened()
                    continue
                if time.monotonic() > deadline:
                    raise _too_long()
                time.sleep(PAUSE)
            yield
        finally:
            os.close(handle)  # and the turn with it

    def _is_in_place(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    def _opened(self) -> int:
        if self.path.is_dir():
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @staticmethod
    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def _file_lock(self, deadline: float) -> Iterator[None]:
        import filelock

        path = self.path / ".memory-mcp.lock" if self.path.is_dir() else self.path
        try:
            with filelock.FileLock(path, timeout=deadline - time.monotonic(), poll_interval=PAUSE):
                yield
        except filelock.Timeout as exc:
            raise _too_long() from exc


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder that is this process's own, so that others see that it lives."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_free(path: Path) -> bool:
    """Whether nobody holds a file or folder."""
    if fcntl is None:
        return False  # nobody can tell
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


def _too_long() -> Unavailable:
    return Unavailable(
        "Another process has been writing to this memory for too long. Nothing was changed; stop it or try again."
    )
