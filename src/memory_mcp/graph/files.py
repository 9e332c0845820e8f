"""Where projects lie on disk, which of their files are open, and what is done after a crash."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

import apsw

from memory_mcp.graph import storage
from memory_mcp.graph.model import Status
from memory_mcp.sqlite import Database

PROJECTS, ARCHIVE, LOCKS = "projects", "archive", "locks"
DELETED = ".deleted"  # what the name of a mark ends with
MOST_OPEN = 64  # projects' files
IDLE_SECONDS = 5.0  # after which one of more than those is closed

OpenFile = Callable[[Path, Path, bool], Database]
"""Opens a project's file, given its path, where its writers wait, and whether to make it."""


@dataclass(frozen=True)
class Place:
    """Where one user's projects lie."""

    registry: Database
    folder: Path

    def relative(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def lock(self, project_id: str) -> Path:
        """Where writers of a project wait, wherever its file lies."""
        return self.folder / LOCKS / f"{project_id}.lock"

    def mark(self, project_id: str) -> Path:
        """What says that a project is being deleted."""
        return self.folder / LOCKS / f"{project_id}{DELETED}"

    def file(self, project_id: str, status: Status) -> Path:
        return self.folder / (PROJECTS if status == "active" else ARCHIVE) / f"{project_id}.db"


@dataclass
class _Opened:
    db: Database
    used_at: float = 0.0


class OpenFiles:
    """The projects' files this process has open."""

    def __init__(self, open_file: OpenFile) -> None:
        self._open_file = open_file
        self._guard = threading.Lock()
        self._opening: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
        self._opened: dict[Path, _Opened] = {}

    def all(self) -> list[Database]:
        with self._guard:
            return [opened.db for opened in self._opened.values()]

    def close(self) -> None:
        with self._guard:
            for opened in self._opened.values():
                opened.db.close()
            self._opened.clear()

    def get(self, path: Path, lock: Path, *, make: bool = False) -> Database:
        """A project's file. Raises NotFound if it is missing and not to be made."""
        with self._guard:
            opening = self._opening[path]
        with opening:  # one at a time, and nobody else's file waits for it
            opened = self._used(path) or self._add(path, self._open_file(path, lock, make))
        return opened.db

    def forget(self, path: Path) -> None:
        """Nobody here gets this file any more: it is about to be moved or removed."""
        with self._guard:
            self._opened.pop(path, None)
            self._opening.pop(path, None)

    def _used(self, path: Path) -> _Opened | None:
        with self._guard:
            opened = self._opened.get(path)
            if opened:
                opened.used_at = time.monotonic()
            return opened

    def _add(self, path: Path, db: Database) -> _Opened:
        with self._guard:
            self._close_idle()
            opened = self._opened[path] = _Opened(db, time.monotonic())
        return opened

    def _close_idle(self) -> None:
        """Files are few that a process may have open."""
        idle = sorted(self._opened, key=lambda path: self._opened[path].used_at)[:-MOST_OPEN]
        for path in idle:
            if time.monotonic() - self._opened[path].used_at > IDLE_SECONDS:
                self._opened.pop(path).db.close()
                self._opening.pop(path, None)


def heal(place: Place) -> None:
    """Bring registry and files together where a crash left them apart.

    While nobody else changes the registry, so that what a living process is about to do is not taken for a crash.
    """
    with place.registry.write() as tx:
        known = storage.projects(tx, None)
        for project in known:
            here, there = place.file(project.id, project.status), place.file(project.id, _other(project.status))
            if here.exists() and there.exists():  # it was copied, and not moved any more
                _remove(there)
            elif there.exists():
                storage.set_status(tx, project.id, _other(project.status), place.relative(there))
        _clear(place, {project.id for project in known})


def _clear(place: Place, known: Set[str]) -> None:
    """Remove what crashes left of projects that were being deleted, made or moved."""
    for mark in (place.folder / LOCKS).glob(f"*{DELETED}"):
        id_ = mark.name.removesuffix(DELETED)
        for folder in (PROJECTS, ARCHIVE) if id_ not in known else ():  # else the registry could not be written
            _remove(place.folder / folder / f"{id_}.db")
        mark.unlink()
    for folder in (PROJECTS, ARCHIVE):
        for path in (place.folder / folder).glob("*.db*"):
            id_ = path.name.partition(".")[0]
            if path.suffix == ".part":
                path.unlink(missing_ok=True)
            elif path.suffix == ".db" and id_ not in known and _is_blank(path):
                _remove(path)


def _is_blank(path: Path) -> bool:
    """Whether a project's file never held anything. One that cannot be read is left alone."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'entities'").fetchall()
            return not tables or not connection.execute("SELECT 1 FROM entities LIMIT 1").fetchall()
        finally:
            connection.close()
    except apsw.Error:
        return False


def _remove(path: Path) -> None:
    """A project's file, with all that may lie beside it."""
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink(missing_ok=True)


def _other(status: Status) -> Status:
    return "archived" if status == "active" else "active"
