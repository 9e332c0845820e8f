"""The files of projects: their paths, which of them are open, and repairs after a crash."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from memory_mcp.engines.sqlite import Database, sibling_files
from memory_mcp.engines.transactions import Write
from memory_mcp.errors import NotFound
from memory_mcp.families.graph import storage
from memory_mcp.families.graph.databases import ARCHIVE, PROJECTS, file_path
from memory_mcp.families.graph.model import Project, Status
from memory_mcp.families.graph.schema import PROJECT
from memory_mcp.services.access import Tenants

LOCKS = "locks"
DELETED = ".deleted"  # suffix of the name of a mark file
PART = ".db.part"  # suffix of the name of an incomplete copy
MAX_OPEN_FILES = 32  # projects' files; each takes five of the few that a process may have open
CLOSE_TIMEOUT_S = 0.05  # for a write to finish in a file that is to be closed

OpenFile = Callable[[Path, Path, bool], Database]
"""Opens a project's file, given its path, the file its writers lock, and whether to create it."""


@dataclass(frozen=True)
class GraphFolder:
    """The folder and the registry of one user's projects."""

    registry: Database
    folder: Path

    def relative(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def lock(self, project_id: str) -> Path:
        """The file that writers of a project lock."""
        return self.folder / LOCKS / f"{project_id}.lock"

    def mark(self, project_id: str) -> Path:
        """The file that marks a project as being deleted."""
        return self.folder / LOCKS / f"{project_id}{DELETED}"

    def file(self, project_id: str, status: Status) -> Path:
        return self.folder / file_path(project_id, status)


class OpenFiles:
    """The projects' files this process uses. At most MAX_OPEN_FILES are open: beyond, the least recently used is closed
    and opens by itself when it is used again."""

    def __init__(self, open_file: OpenFile) -> None:
        self._open_file = open_file
        self._lock = threading.Lock()
        self._opening: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[Path, Database] = {}
        self._open: dict[Path, Database] = {}  # the open ones, the last used at the end

    def all(self) -> list[Database]:
        """The open files."""
        with self._lock:
            return list(self._open.values())

    def close(self) -> None:
        for db in self.all():
            db.close()

    def get(self, path: Path, lock: Path, *, make: bool = False) -> Database:
        """A project's file. Raises NotFound if it is missing, unless `make`."""
        with self._lock:
            opening = self._opening[path]
        with opening:  # one at a time for each file
            db = self._known.get(path)
            if db is None:
                db = self._known[path] = self._open_file(path, lock, make)
                db.on_open(self._use)
        self._use(db)
        for surplus in self._surplus():
            if not surplus.close(CLOSE_TIMEOUT_S):  # another thread writes to it
                self._use(surplus)
        return db

    def detach(self, path: Path) -> None:
        """Remove a file from the open ones, before it is moved or deleted."""
        with self._lock:
            self._known.pop(path, None)
            self._open.pop(path, None)

    def _use(self, db: Database) -> None:
        """Record that a file is open, and the last used one."""
        with self._lock:
            if self._known.get(db.path) is db:
                self._open.pop(db.path, None)
                self._open[db.path] = db

    def _surplus(self) -> list[Database]:
        with self._lock:
            return [self._open.pop(path) for path in list(self._open)[:-MAX_OPEN_FILES]]


class ProjectFiles:
    """A registry and a file for each project, in each user's folder."""

    def __init__(self, registries: Tenants, open_file: OpenFile) -> None:
        self._registries = registries
        self._files = OpenFiles(open_file)
        self._repair_lock = threading.Lock()
        self._repaired_users: set[str] = set()

    def has_registry(self, user: str) -> bool:
        return self._registries.exists(user)

    def registry(self, user: str) -> Database:
        return self._folder(user).registry

    def create(self, tx: Write, user: str, project_id: str) -> str:
        graph_folder = self._folder(user)
        path = graph_folder.file(project_id, "active")
        self._files.get(path, graph_folder.lock(project_id), make=True)
        return graph_folder.relative(path)

    def open(self, user: str, project: Project) -> Database:
        graph_folder = self._folder(user)
        return self._files.get(graph_folder.file(project.id, project.status), graph_folder.lock(project.id))

    def path(self, user: str, project: Project, status: Status) -> str:
        graph_folder = self._folder(user)
        return graph_folder.relative(graph_folder.file(project.id, status))

    def move(self, user: str, project: Project, after: Status) -> None:
        self._detach(user, project).move(self._folder(user).file(project.id, after))

    def check_again(self, user: str) -> None:
        self._repaired_users.discard(user)

    def mark_deleted(self, tx: Write, user: str, project: Project) -> None:
        """If a step fails from here on, the next start finishes it: a project with a mark is being deleted."""
        mark = self._folder(user).mark(project.id)
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch()

    def delete(self, user: str, project: Project) -> None:
        with suppress(NotFound):  # the file is lost already
            self._detach(user, project).remove()
        graph_folder = self._folder(user)
        for left in (graph_folder.lock(project.id), graph_folder.mark(project.id)):
            left.unlink(missing_ok=True)

    def opened(self) -> Sequence[Database]:
        return self._files.all()

    def close(self) -> None:
        self._files.close()

    def _detach(self, user: str, project: Project) -> Database:
        """A project's file, to move or remove it. No other call in this process gets it afterwards."""
        db = self.open(user, project)
        self._files.detach(db.path)
        return db

    def _folder(self, user: str) -> GraphFolder:
        """The folder of a user's projects. At first use, leftovers of a crash are repaired."""
        graph_folder = GraphFolder(self._registries.database(user), self._registries.folder(user))
        if user not in self._repaired_users:
            with self._repair_lock:
                if user not in self._repaired_users:  # by another thread
                    repair(graph_folder)
                    self._repaired_users.add(user)
        return graph_folder


def repair(graph_folder: GraphFolder) -> None:
    """Repair differences between the registry and the files after a crash.

    The registry's lock is held, so that an unfinished change of a running process is not mistaken for a crash.
    """
    with graph_folder.registry.write() as tx:
        _adopt_files(tx, graph_folder)
        known = storage.projects(tx, None)
        for project in known:
            here, there = (
                graph_folder.file(project.id, project.status),
                graph_folder.file(project.id, _other(project.status)),
            )
            if here.exists() and there.exists():  # the move stopped after the copy
                if storage.is_of_kind(there, PROJECT.application_id):  # otherwise another program put it there
                    _remove(there)
            elif there.exists():
                storage.set_status(tx, project.id, _other(project.status), graph_folder.relative(there))
                if project.status == "active":  # no more
                    storage.clear_active_project(tx, project.id)
        _clear(graph_folder, {project.id for project in known})


def _adopt_files(tx: Write, graph_folder: GraphFolder) -> None:
    """Move files of another implementation to where ours are: its ids may be no UUIDs, its paths others than we expect.

    A new id follows from the old one, so that a start that was killed in the middle continues where it stopped.
    """
    paths = storage.recorded_paths(tx)
    for project in storage.projects(tx, None):
        id_ = project.id if _is_id(project.id) else str(uuid5(NAMESPACE_URL, f"memory-mcp:project/{project.id}"))
        target = graph_folder.file(id_, project.status)
        found = _find(graph_folder, project.id, paths[project.id])
        if found and found != target and not target.exists():
            target.parent.mkdir(mode=0o700, exist_ok=True)
            sibling_files.move_database(found, target)
        if id_ != project.id:
            storage.set_file(tx, project.id, id_, graph_folder.relative(target))


def _find(graph_folder: GraphFolder, id_: str, recorded: str) -> Path | None:
    """A project's file if it is not where ours are: where the registry says, inside the user's folder."""
    if _is_id(id_) and any(graph_folder.file(id_, status).exists() for status in ("active", "archived")):
        return None
    path = (graph_folder.folder / recorded).resolve()
    is_inside = path.parent in ((graph_folder.folder / folder).resolve() for folder in (PROJECTS, ARCHIVE))
    return path if is_inside and path.is_file() else None


def _clear(graph_folder: GraphFolder, known: Set[str]) -> None:
    """Remove leftovers of crashes while projects were deleted, created or moved. Files of other programs stay."""
    for id_ in _ids(graph_folder.folder / LOCKS, DELETED):
        if id_ not in known:  # if it is, writing the registry has failed
            for folder in (PROJECTS, ARCHIVE):
                _remove(graph_folder.folder / folder / f"{id_}.db")
            graph_folder.lock(id_).unlink(missing_ok=True)
        graph_folder.mark(id_).unlink(missing_ok=True)
    for folder in (PROJECTS, ARCHIVE):
        inside = graph_folder.folder / folder
        for id_ in _ids(inside, PART):
            (inside / f"{id_}{PART}").unlink(missing_ok=True)
        for id_ in _ids(inside, ".db"):
            path = inside / f"{id_}.db"
            if id_ not in known and storage.is_blank(path, PROJECT.application_id):
                _remove(path)


def _ids(folder: Path, ending: str) -> Iterator[str]:
    """The ids of projects that have a file with this ending."""
    for path in list(folder.glob(f"*{ending}")):
        id_ = path.name.removesuffix(ending)
        if _is_id(id_):
            yield id_


def _is_id(text: str) -> bool:
    with suppress(ValueError):
        return text == str(UUID(text))
    return False


def _remove(path: Path) -> None:
    """A project's file, with all of ours that may lie beside it."""
    sibling_files.delete_database(path)
    for orphan in sibling_files.orphans(path):
        orphan.unlink(missing_ok=True)


def _other(status: Status) -> Status:
    return "archived" if status == "active" else "active"
