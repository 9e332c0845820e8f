"""Which servers on a data directory live: each holds a lock file, which the system frees however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from memory_mcp.clock import new_id


class Servers:
    """This server and the others on the same data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.this = new_id()
        self._shown: filelock.BaseFileLock | None = None

    @property
    def this_is_shown(self) -> bool:
        return self._shown is not None

    def show_this(self) -> None:
        """From now on everybody sees that this server lives."""
        if self._shown is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._shown = self._lock_of(self.this)
            self._shown.acquire()

    def close(self) -> None:
        if self._shown is not None:
            Path(self._shown.lock_file).unlink(missing_ok=True)
            self._shown.release()
            self._shown = None

    def is_living(self, server_id: str) -> bool:
        if server_id == self.this:
            return True
        with self.if_dead(server_id) as is_dead:
            return not is_dead

    @contextmanager
    def if_dead(self, server_id: str) -> Iterator[bool]:
        """Whether a server has died. For the block nobody else finds it dead, and after it no trace of it is left."""
        if not self._folder.is_dir():
            yield True
            return
        lock = self._lock_of(server_id)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            yield False
            return
        try:
            yield True
            Path(lock.lock_file).unlink(missing_ok=True)
        finally:
            lock.release()

    def forget_the_dead(self) -> None:
        """Remove the locks of those that died without anything to clear."""
        for path in self._folder.glob("*.lock"):
            self.is_living(path.stem)

    def _lock_of(self, server_id: str) -> filelock.BaseFileLock:
        return filelock.FileLock(self._folder / f"{server_id}.lock", mode=0o600, thread_local=False)
