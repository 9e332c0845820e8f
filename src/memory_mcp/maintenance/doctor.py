"""A look at everything in a data directory, and what is safe to mend mended."""

import shutil
import socket
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from memory_mcp.embedding import Options, model_files
from memory_mcp.engines.chdb import client as engine
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.files.atomic_write import ABANDONED, UNFINISHED
from memory_mcp.engines.files.data_dir_lock import holders
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.sqlite import Database, integrity, sibling_files
from memory_mcp.engines.sqlite.integrity import Fault
from memory_mcp.engines.sqlite.migrations import Schema
from memory_mcp.errors import AppError
from memory_mcp.families.graph import storage as graph
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.stores.registry import Registry
from memory_mcp.maintenance import restore, staging
from memory_mcp.maintenance.layout import STORES, DatabaseFile, Kinds, Layout, is_id
from memory_mcp.maintenance.model import Diagnosis, Finding, Tell, quietly
from memory_mcp.sessions import Servers

LEAST_SPACE = 200_000_000  # bytes; below, the next large write may fail
BY_BACKUP = "Put a backup in its place: memory-mcp restore."

Mend = Callable[[], None]
OpenFile = Callable[..., Database]


class Doctor:
    """Checks one data directory. Servers may run meanwhile."""

    def __init__(
        self,
        layout: Layout,
        kinds: Kinds,
        portals: Portals,
        *,
        caches: Mapping[str, Schema],
        open_file: OpenFile,
        embedding: Options,
    ) -> None:
        self._layout = layout
        self._kinds = kinds
        self._portals = portals
        self._caches = caches
        self._open = open_file
        self._embedding = embedding

    def look(self, *, repair: bool, tell: Tell = quietly) -> Diagnosis:
        """Every database, index, file and setting. With `repair`, what is safe to mend is."""
        checked: Counter[str] = Counter()
        findings: list[Finding] = []
        steps = (
            *(self._folder, self._permissions, self._databases, self._cached, self._projects, self._stores),
            *(self._portal_folders, self._left_behind, self._locks, self._embedder),
        )
        for number, step in enumerate(steps):
            tell(step.__name__.strip("_").replace("_", " "), number, len(steps))
            findings += step(checked, repair)
        tell("done", len(steps), len(steps))
        return Diagnosis(dict(checked), tuple(findings))

    # The folder itself

    def _folder(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        checked["disk"] += 1
        free = shutil.disk_usage(self._layout.data_dir).free
        if free < LEAST_SPACE:
            yield Finding("disk", ".", "problem", f"only {free // 1_000_000} MB are free on this disk")

    def _permissions(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        """What is in a folder that only its owner enters is safe; our files are for their owner alone all the same."""
        for path in self._private():
            try:
                found = path.lstat()
            except FileNotFoundError:  # gone by now
                continue
            checked["permissions"] += 1
            if stat.S_IMODE(found.st_mode) & 0o077 and not stat.S_ISLNK(found.st_mode):
                usual = 0o700 if stat.S_ISDIR(found.st_mode) else 0o600
                yield self._mended(
                    repair,
                    Finding(
                        "permissions",
                        self._shown(path),
                        "problem",
                        f"others on this machine may get at it ({stat.filemode(found.st_mode)})",
                    ),
                    partial(path.chmod, usual),
                )

    def _private(self) -> Iterator[Path]:
        for tenant in self._layout.tenants():
            if not data_directory.is_shared(tenant.folder):
                yield tenant.folder
            for pattern in ("*.db*", "projects/*.db*", "archive/*.db*", "backups/*"):
                yield from sorted(tenant.folder.glob(pattern))
        if self._layout.vault_is_elsewhere():
            yield self._layout.vault_path

    # Databases

    def _databases(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        for file in self._layout.databases():
            checked["databases"] += 1
            yield from self._database(file, repair)

    def _database(self, file: DatabaseFile, repair: bool) -> Iterator[Finding]:
        found = list(integrity.faults(file.path, self._kinds.schemas[file.kind], file.lock))
        try:
            if not found and not self._is_indexed(file):
                found = [Fault("not everything in it can be found by its words", "words")]
        except AppError as exc:
            found = [Fault(f"it cannot be opened ({exc.message})")]
        indexes = {fault.index for fault in found if fault.index}
        if found and indexes and all(fault.index for fault in found):
            message = "; ".join(fault.message for fault in found[: integrity.MAX_PROBLEMS])
            finding = Finding("index", file.name, "problem", message)
            yield self._mended(repair, finding, partial(self._index_anew, file))
            return
        for fault in found:
            advice = "" if fault.message.startswith("a newer") else f" {BY_BACKUP}"
            yield Finding("database", file.name, "problem", f"{fault.message}.{advice}")

    def _is_indexed(self, file: DatabaseFile) -> bool:
        look = self._kinds.is_indexed.get(file.kind)
        if look is None or not integrity.is_current(file.path, self._kinds.schemas[file.kind], file.lock):
            return True  # whoever migrates it sees to it
        with self._opened(file) as db, db.read() as tx:
            return look(tx)

    def _index_anew(self, file: DatabaseFile) -> None:
        """All indexes of words of a file, from its texts. In one write: searches see the old ones until then."""
        with self._opened(file) as db, db.write() as tx:
            names = list(integrity.word_indexes(tx.connection))
            own = [name for name in names if integrity.has_its_own_texts(tx.connection, name)]
            integrity.empty(tx.connection, [name for name in names if name not in own])
            for name in own:
                integrity.rebuild(tx.connection, name)
            if index_anew := self._kinds.index_anew.get(file.kind):
                index_anew(tx)
        left = list(integrity.faults(file.path, self._kinds.schemas[file.kind], file.lock))
        if left or not self._is_indexed(file):
            raise _StillWrong(left[0].message if left else "it still does not fit")

    def _opened(self, file: DatabaseFile) -> "closing[Database]":
        return closing(self._open(file.path, schema=self._kinds.schemas[file.kind], missing="refuse", lock=file.lock))

    # Caches

    def _cached(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        for tenant in self._layout.tenants():
            for name, schema in self._caches.items():
                path = tenant.folder / name
                if not path.exists():
                    continue
                checked["caches"] += 1
                lock = path.with_name(f"{name}.lock")
                if found := list(integrity.faults(path, schema, lock)):
                    finding = Finding("cache", self._shown(path), "problem", f"{found[0].message}; it can be made anew")
                    if name == "live.db" and holders(self._layout.data_dir):
                        yield Finding("cache", finding.place, "problem", f"{found[0].message}. Stop the servers first")
                    else:
                        yield self._mended(repair, finding, partial(_drop, path, lock))

    # Graphs

    def _projects(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        """What the registry says and which files there are. Who opens a graph next mends what a crash left."""
        for tenant in self._layout.tenants():
            file = self._layout.registry(tenant)
            if not file.path.exists():
                continue
            try:
                if not integrity.is_current(file.path, self._kinds.schemas[file.kind], file.lock):
                    continue
                with self._opened(file) as db, db.read() as tx:
                    known = {project.id: project for project in graph.projects(tx, None)}
            except AppError:  # told with the databases
                continue
            files = {one.path.stem: one for one in self._layout.projects(tenant)}
            checked["projects"] += len(known)
            for id_, project in known.items():
                if id_ not in files:
                    yield Finding(
                        "project",
                        file.name,
                        "problem",
                        f"the file of the project {project.name!r} is gone. {BY_BACKUP}",
                    )
            for id_, one in files.items():
                if id_ not in known:
                    yield Finding(
                        "project", one.name, "problem", "no project has this file; move it away if nobody misses it"
                    )

    # Stores

    def _stores(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        for tenant in self._layout.tenants():
            registry = Registry(tenant.folder)
            try:
                named = registry.names()
            except AppError as exc:
                yield Finding("store", f"{tenant.prefix}stores.yaml", "problem", exc.message)
                continue
            for name in named:
                checked["stores"] += 1
                try:
                    store = registry.get(name)
                except AppError as exc:
                    yield Finding("store", f"{tenant.prefix}stores.yaml", "problem", exc.message)
                    continue
                if not store.folder.is_dir() and not store.is_ours:
                    yield Finding(
                        "store",
                        f"{tenant.prefix}stores.yaml",
                        "problem",
                        f"the folder of {name!r}, {store.folder}, is not there; bring it back, or memory-mcp stores "
                        f"remove {name}",
                    )
                elif below := data_directory.find_below(store.folder.resolve()):
                    yield Finding(
                        "store",
                        f"{tenant.prefix}stores.yaml",
                        "notice",
                        f"the folder of {name!r} holds a data directory of Memory MCP, {below}, which is left out; "
                        "give the store a folder that does not hold it",
                    )

    # Portals

    def _portal_folders(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        portals = [(tenant, portal) for tenant in self._layout.tenants() for portal in self._layout.portals(tenant)]
        if portals and not engine.is_installed():
            yield Finding("portal", "portals", "problem", "chDB is not installed: pip install 'memory-mcp[portals]'")
            return
        for tenant, portal in portals:
            checked["portals"] += 1
            place = self._layout.portal_name(tenant, portal).removesuffix(".db")
            faults = self._portals.faults(portal)
            if faults == [NAMES_OTHERS]:
                finding = Finding("portal", place, "problem", NAMES_OTHERS)
                yield self._mended(repair, finding, partial(self._portals.describe_again, portal))
                continue
            for fault in faults:
                yield Finding("portal", place, "problem", f"{fault}. {BY_BACKUP}")

    # What others left

    def _left_behind(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        for path in self._unfinished():
            finding = Finding("leftover", self._shown(path), "problem", "a process that died left this unfinished")
            yield self._mended(repair, finding, partial(_remove, path))
        for tenant in self._layout.tenants():
            for pattern in ("*.orphan", "projects/*.orphan", "archive/*.orphan"):
                for path in sorted(tenant.folder.glob(pattern)):
                    message = "the log of a database that was replaced; delete it if nothing is missed"
                    yield Finding("leftover", self._shown(path), "notice", message)
        for path in sorted(self._layout.data_dir.glob(f"{restore.ASIDE}*")):
            message = "what was here before a restore; delete it when you no longer want it"
            yield Finding("leftover", self._shown(path), "notice", message)

    def _unfinished(self) -> Iterator[Path]:
        top = self._layout.data_dir
        yield from staging.abandoned(top)
        yield from restore.abandoned(top)  # nobody restores while a doctor looks
        old = time.time() - ABANDONED
        for tenant in self._layout.tenants():
            folders = [tenant.folder, tenant.folder / "projects", tenant.folder / "archive"]
            found = [path for folder in folders for path in (*folder.glob("*.part"), *folder.glob(f".*{UNFINISHED}"))]
            found += (tenant.folder / STORES).rglob(f".*{UNFINISHED}")
            for portal in self._layout.portals(tenant):
                found += [*portal.path.glob(f".*{UNFINISHED}"), *(portal.path / "staging").glob("*")]
            for path in sorted(set(found)):
                with suppress(OSError):
                    if max(path.lstat().st_mtime, path.lstat().st_ctime) < old:
                        yield path

    def _locks(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        for path in sorted((self._layout.data_dir / "servers").glob("*")):
            checked["locks"] += 1
            if _is_dead(path):
                finding = Finding("lock", self._shown(path), "problem", "of a server that is gone")
                yield self._mended(repair, finding, partial(_forget_server, path))
        for tenant in self._layout.tenants():
            known = {one.path.stem for one in self._layout.projects(tenant)}
            for path in sorted((tenant.folder / "locks").glob("*.lock")):
                checked["locks"] += 1
                is_young = path.stat().st_mtime > time.time() - ABANDONED  # its project is being made
                if is_id(path.stem) and path.stem not in known and not is_young:
                    finding = Finding("lock", self._shown(path), "problem", "of a project that is gone")
                    yield self._mended(repair, finding, partial(_drop_lock, path))

    # Settings

    def _embedder(self, checked: Counter[str], repair: bool) -> Iterator[Finding]:
        checked["embedder"] += 1
        folder = self._embedding.model_folder
        if self._embedding.kind not in ("auto", "builtin") or model_files.are_sound(folder):
            return
        advice = "memory-mcp models pull fetches it"
        if model_files.are_there(folder):
            yield Finding("embedder", str(folder), "problem", f"the model's files are not the ones we know; {advice}")
        elif self._embedding.kind == "builtin":
            yield Finding("embedder", str(folder), "problem", f"the model is not there; {advice}")
        else:
            yield Finding("embedder", str(folder), "notice", f"the built-in model is not there; {advice}")

    # Mending

    @staticmethod
    def _mended(repair: bool, finding: Finding, mend: Mend) -> Finding:
        if not repair:
            return Finding(finding.check, finding.place, "problem", finding.message, repairable=True)
        try:
            mend()
        except (AppError, OSError, _StillWrong) as exc:
            return Finding(finding.check, finding.place, "problem", f"{finding.message}; mending it failed ({exc})")
        return Finding(finding.check, finding.place, "repaired", finding.message, repairable=True)

    def _shown(self, path: Path) -> str:
        with suppress(ValueError):
            return path.relative_to(self._layout.data_dir).as_posix()
        return str(path)


NAMES_OTHERS = "portal.json names other tables than it has"


class _StillWrong(Exception):
    """Mending did not help."""


def _drop(path: Path, lock: Path) -> None:
    """A cache, while nobody writes to it. Whoever uses it notices, and makes it anew."""
    with FileLock(lock).acquire():
        sibling_files.delete_database(path)


def _drop_lock(path: Path) -> None:
    with FileLock(path).acquire(1.0):
        path.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _forget_server(path: Path) -> None:
    if path.suffix == ".lock":
        Servers(path.parent).is_running(path.stem)  # which leaves no trace of one that is not
    else:
        path.unlink(missing_ok=True)


def _is_dead(path: Path) -> bool:
    """Whether the server a lock or a socket belongs to is gone."""
    if path.suffix == ".lock":
        with suppress(OSError), FileLock(path).try_acquire() as is_free:
            return is_free
        return False
    if path.suffix != ".sock" or not hasattr(socket, "AF_UNIX"):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        try:
            sending.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
