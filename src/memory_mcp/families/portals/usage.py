"""How often a portal was read and written, and when it last was: a small file in its folder, for all servers."""

import json
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.model import Usage

FILE = "usage.json"
LOCK = ".usage.lock"
LOCK_TIMEOUT_S = 1.0  # then these counts are lost
WRITE_DELAY_S = 0.2  # counts within it are written together


class UsageCounter:
    """Counts in memory, and writes to the portals' folders soon after, in a thread: no call waits for a file because of
    these figures. A server that is killed loses the last ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._counted: dict[Path, Usage] = {}  # by portal, and not written yet
        self._timer: threading.Timer | None = None

    def count_read(self, folder: Path, now: str) -> None:
        self._count(folder, Usage(reads=1, lastRead=now))

    def count_write(self, folder: Path, now: str) -> None:
        self._count(folder, Usage(writes=1, lastWrite=now))

    def usage(self, folder: Path) -> Usage:
        """With everything that this server has counted."""
        with self._writing:
            with self._lock:
                added = self._counted.pop(folder, None)
            if added:
                _add(folder, added)
            return _read(folder)

    def forget(self, folder: Path) -> None:
        """Discard what was counted for a portal that is being deleted."""
        with self._writing, self._lock:
            self._counted.pop(folder, None)

    def flush(self) -> None:
        """Write all counts to the portals' folders."""
        with self._writing:
            with self._lock:
                counted, self._counted, self._timer = self._counted, {}, None
            for folder, added in counted.items():
                _add(folder, added)

    def _count(self, folder: Path, added: Usage) -> None:
        with self._lock:
            self._counted[folder] = _sum(self._counted.get(folder, Usage()), added)
            if self._timer is None:
                self._timer = threading.Timer(WRITE_DELAY_S, self.flush)
                self._timer.daemon = True
                self._timer.start()


def _add(folder: Path, added: Usage) -> None:
    with (
        suppress(OSError, Unavailable),
        FileLock(folder / LOCK).acquire(LOCK_TIMEOUT_S),
        Root(folder).folder(()) as entry,
    ):
        atomic_write.write(entry.sibling(FILE), json.dumps(asdict(_sum(_read(folder), added))).encode(), durable=False)


def _read(folder: Path) -> Usage:
    try:
        return Usage(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, or not written by this server
        return Usage()


def _sum(before: Usage, added: Usage) -> Usage:
    return Usage(
        before.reads + added.reads,
        before.writes + added.writes,
        added.lastRead or before.lastRead,
        added.lastWrite or before.lastWrite,
    )
