"""Checks of everything in a data directory, and safe repairs."""

import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from memory_mcp.clock import Clock
from memory_mcp.engines.files import data_directory, staging
from memory_mcp.engines.files.atomic_write import ABANDONED_AFTER_S, UNFINISHED
from memory_mcp.engines.files.data_dir_lock import holders
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.sqlite import Database, integrity, sibling_files
from memory_mcp.engines.sqlite.database_kind import LOCKS, is_id
from memory_mcp.engines.sqlite.integrity import Fault
from memory_mcp.errors import AppError
from memory_mcp.families.family import Family
from memory_mcp.families.maintenance import RESTORE_HINT, DatabaseFile, Finding, Inspection, RepairFailed
from memory_mcp.maintenance import restore
from memory_mcp.maintenance.layout import Layout
from memory_mcp.maintenance.model import Diagnosis
from memory_mcp.progress import Bytes, ProgressCount, ReportProgress, report_nothing
from memory_mcp.services.embedding import EmbeddingOptions, model_files
from memory_mcp.services.sessions import Servers
from memory_mcp.settings import Settings
from memory_mcp.system import operating_system

MIN_FREE_BYTES = 200_000_000  # below this, the next large write may fail


class Doctor:
    """Checks one data directory. Servers may run meanwhile."""

    def __init__(
        self,
        layout: Layout,
        families: Iterable[Family[Any]],
        settings: Settings,
        clock: Clock,
        *,
        open_file: Callable[..., Database],
        embedding: EmbeddingOptions,
    ) -> None:
        self._layout = layout
        self._families = {family.name: family.maintenance() for family in families if family.maintenance}
        self._settings = settings
        self._clock = clock
        self._open = open_file
        self._embedding = embedding

    def check(self, *, repair: bool, report_progress: ReportProgress = report_nothing) -> Diagnosis:
        """Check every database, index, file and setting. With `repair`, make the safe repairs."""
        tenants = self._layout.tenants()
        inspection = Inspection(self._settings, self._clock, tenants, repair, self._open, report_progress)
        findings: list[Finding] = []
        steps: dict[str, Callable[[Inspection], Iterable[Finding]]] = {
            "folder": self._folder,
            "permissions": self._permissions,
            "databases": self._databases,
            "caches": self._caches,
            **{name: maintenance.check for name, maintenance in self._families.items()},
            "leftovers": self._leftovers,
            "locks": self._locks,
            "embedder": self._embedder,
        }
        for name, check in steps.items():
            report_progress(name, 0, None)
            findings += check(inspection)
        return Diagnosis(dict(inspection.checked), tuple(findings))

    # The folder itself

    def _folder(self, inspection: Inspection) -> Iterator[Finding]:
        inspection.checked["disk"] += 1
        if not any(file.path.exists() for tenant in self._layout.tenants() for file in self._layout.databases(tenant)):
            yield Finding("data", ".", "notice", "there are no databases here yet; is this the right data directory?")
        free = shutil.disk_usage(self._layout.data_dir).free
        if free < MIN_FREE_BYTES:
            yield Finding("disk", ".", "problem", f"only {free // 1_000_000} MB are free on this disk")

    def _permissions(self, inspection: Inspection) -> Iterator[Finding]:
        """Our files are private to their owner, even in a private folder."""
        for path in self._private():
            try:
                found = path.lstat()
            except FileNotFoundError:  # deleted meanwhile
                continue
            inspection.checked["permissions"] += 1
            if stat.S_IMODE(found.st_mode) & 0o077 and not stat.S_ISLNK(found.st_mode):
                usual = 0o700 if stat.S_ISDIR(found.st_mode) else 0o600
                yield inspection.repair_finding(
                    Finding(
                        "permissions",
                        self._shown(path),
                        "problem",
                        f"other users of this machine may access it ({stat.filemode(found.st_mode)})",
                    ),
                    partial(path.chmod, usual),
                )

    def _private(self) -> Iterator[Path]:
        for tenant in self._layout.tenants():
            if not data_directory.is_shared(tenant.folder):
                yield tenant.folder
            for pattern in ("*.db*", *(f"{name}/*.db*" for name in self._layout.subfolders), "backups/*"):
                yield from sorted(tenant.folder.glob(pattern))
        if self._layout.vault_is_elsewhere():
            yield self._layout.vault_path

    # Databases

    def _databases(self, inspection: Inspection) -> Iterator[Finding]:
        files = [file for tenant in self._layout.tenants() for file in self._layout.databases(tenant)]
        count = ProgressCount("databases", Bytes(sum(map(_size, files))), inspection.report_progress)
        for file in files:
            inspection.checked["databases"] += 1
            yield from self._database(file, inspection)
            count.add(_size(file))

    def _database(self, file: DatabaseFile, inspection: Inspection) -> Iterator[Finding]:
        found = list(integrity.faults(file.path, file.kind.schema, file.lock))
        try:
            if not found and not _is_indexed(inspection, file):
                found = [Fault("its full-text index is incomplete", "words")]
        except AppError as exc:
            found = [Fault(f"it cannot be opened ({exc.message})")]
        if file.kind.may_lose_last_writes and any(fault.is_empty for fault in found):
            message = f"{integrity.EMPTY}; no memory is lost, only who wrote what"
            finding = Finding("journal", file.name, "problem", message)
            yield inspection.repair_finding(finding, partial(_recreate, inspection, file))
            return
        indexes = {fault.index for fault in found if fault.index}
        if found and indexes and all(fault.index for fault in found):
            message = "; ".join(fault.message for fault in found[: integrity.MAX_PROBLEMS])
            finding = Finding("index", file.name, "problem", message)
            yield inspection.repair_finding(finding, partial(_rebuild_index, inspection, file))
            return
        for fault in found:
            advice = "" if fault.message.startswith("a newer") else f" {RESTORE_HINT}"
            yield Finding("database", file.name, "problem", f"{fault.message}.{advice}", details=fault.details)

    # Caches

    def _caches(self, inspection: Inspection) -> Iterator[Finding]:
        caches = [kind for kind in self._layout.kinds if kind.is_cache]
        for tenant in self._layout.tenants():
            for file in self._layout.databases(tenant, caches):
                inspection.checked["caches"] += 1
                if found := list(integrity.faults(file.path, file.kind.schema, file.lock)):
                    message = f"{found[0].message}; it can be rebuilt"
                    finding = Finding("cache", self._shown(file.path), "problem", message)
                    if file.kind.is_shared and holders(self._layout.data_dir):
                        yield Finding("cache", finding.place, "problem", f"{found[0].message}. Stop the servers first")
                    else:
                        yield inspection.repair_finding(finding, partial(_delete_cache, file.path, file.lock))
        yield from self._packed_vectors(inspection)

    def _packed_vectors(self, inspection: Inspection) -> Iterator[Finding]:
        """The files of packed vectors beside databases. One that only does not fit its database is written again."""
        for tenant in self._layout.tenants():
            for path in sorted(tenant.folder.glob(f"*{sibling_files.PACKED_VECTORS_SUFFIX}")):
                from memory_mcp.services.search import packed_file  # imports NumPy

                inspection.checked["caches"] += 1
                if not sibling_files.database_of_packed_vectors(path).exists():
                    message = "its database is gone"
                elif not packed_file.is_sound(path):
                    message = "it is damaged; it can be rebuilt"
                else:
                    continue
                finding = Finding("cache", self._shown(path), "problem", message)
                yield inspection.repair_finding(finding, partial(_delete_packed_vectors, path))

    # Leftovers of other processes

    def _leftovers(self, inspection: Inspection) -> Iterator[Finding]:
        for path in self._unfinished():
            finding = Finding("leftover", self._shown(path), "problem", "left unfinished by a process that was killed")
            yield inspection.repair_finding(finding, partial(_delete, path))
        for tenant in self._layout.tenants():
            for pattern in ("*.orphan", *(f"{name}/*.orphan" for name in self._layout.subfolders)):
                for path in sorted(tenant.folder.glob(pattern)):
                    message = "the log of a database that was replaced; delete it if no data is missing"
                    yield Finding("leftover", self._shown(path), "notice", message)
        for path in sorted(self._layout.data_dir.glob(f"{restore.ASIDE}*")):
            message = "data from before a restore; delete it when you no longer need it"
            yield Finding("leftover", self._shown(path), "notice", message)

    def _unfinished(self) -> Iterator[Path]:
        top = self._layout.data_dir
        yield from staging.abandoned(top)
        yield from restore.abandoned(top)  # no restore runs during the checks
        old = time.time() - ABANDONED_AFTER_S
        for tenant in self._layout.tenants():
            folders = [tenant.folder, *(tenant.folder / name for name in self._layout.subfolders)]
            found = [path for folder in folders for path in (*folder.glob("*.part"), *folder.glob(f".*{UNFINISHED}"))]
            for maintenance in self._families.values():
                found += maintenance.leftovers(tenant.folder)
            for path in sorted(set(found)):
                with suppress(OSError):
                    if max(path.lstat().st_mtime, path.lstat().st_ctime) < old:
                        yield path

    def _locks(self, inspection: Inspection) -> Iterator[Finding]:
        for path in sorted((self._layout.data_dir / "servers").glob("*")):
            inspection.checked["locks"] += 1
            if _is_stale(path):
                finding = Finding("lock", self._shown(path), "problem", "of a server that no longer runs")
                yield inspection.repair_finding(finding, partial(_delete_server_files, path))
        for tenant in self._layout.tenants():
            known = {file.lock.stem for file in self._layout.databases(tenant)}
            for path in sorted((tenant.folder / LOCKS).glob("*.lock")):
                inspection.checked["locks"] += 1
                is_young = path.stat().st_mtime > time.time() - ABANDONED_AFTER_S  # its project is being created
                if is_id(path.stem) and path.stem not in known and not is_young:
                    finding = Finding("lock", self._shown(path), "problem", "of a project that is gone")
                    yield inspection.repair_finding(finding, partial(_delete_lock, path))

    # Settings

    def _embedder(self, inspection: Inspection) -> Iterator[Finding]:
        inspection.checked["embedder"] += 1
        folder = self._embedding.model_folder
        if self._embedding.kind not in ("auto", "builtin") or model_files.are_valid(folder):
            return
        advice = "memory-mcp models pull downloads it"
        if model_files.are_installed(folder):
            yield Finding("embedder", str(folder), "problem", f"the model's files have unknown content; {advice}")
        elif self._embedding.kind == "builtin":
            yield Finding("embedder", str(folder), "problem", f"the model is not installed; {advice}")
        else:
            yield Finding("embedder", str(folder), "notice", f"the built-in model is not installed; {advice}")

    def _shown(self, path: Path) -> str:
        with suppress(ValueError):
            return path.relative_to(self._layout.data_dir).as_posix()
        return str(path)


def _size(file: DatabaseFile) -> int:
    with suppress(FileNotFoundError):
        return file.path.stat().st_size
    return 0


def _is_indexed(inspection: Inspection, file: DatabaseFile) -> bool:
    is_indexed = file.kind.is_indexed
    if is_indexed is None or not integrity.is_current(file.path, file.kind.schema, file.lock):
        return True  # its migration will index it
    with inspection.open(file) as db, db.read() as tx:
        return is_indexed(tx)


def _rebuild_index(inspection: Inspection, file: DatabaseFile) -> None:
    """Rebuild the full-text indexes of a file in one transaction: searches use the old ones meanwhile."""
    with inspection.open(file) as db, db.write() as tx:
        names = list(integrity.word_indexes(tx.connection))
        own = [name for name in names if integrity.has_its_own_texts(tx.connection, name)]
        integrity.empty(tx.connection, [name for name in names if name not in own])
        for name in own:
            integrity.rebuild(tx.connection, name)
        if file.kind.rebuild_index:
            file.kind.rebuild_index(tx)
    left = list(integrity.faults(file.path, file.kind.schema, file.lock))
    if left or not _is_indexed(inspection, file):
        raise RepairFailed(left[0].message if left else "it is still incomplete")


def _delete_cache(path: Path, lock: Path) -> None:
    """Delete a file that can be created again while no process writes to it. Servers that use it do that."""
    with FileLock(lock).acquire():
        sibling_files.delete_database(path)


def _delete_packed_vectors(path: Path) -> None:
    with FileLock(sibling_files.packed_vectors_lock(path)).acquire():
        path.unlink(missing_ok=True)


def _recreate(inspection: Inspection, file: DatabaseFile) -> None:
    """Create an empty file again. Servers that use it notice."""
    _delete_cache(file.path, file.lock)
    inspection.open_file(file.kind, file.path, lock=file.lock).close()


def _delete_lock(path: Path) -> None:
    with FileLock(path).acquire(1.0):
        path.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _delete_server_files(path: Path) -> None:
    if path.suffix == ".lock":
        Servers(path.parent).is_running(path.stem)  # deletes the lock of a server that is not
    else:
        path.unlink(missing_ok=True)


def _is_stale(path: Path) -> bool:
    """Whether the server of a lock or a socket no longer runs."""
    if path.suffix == ".lock":
        with suppress(OSError), FileLock(path).try_acquire() as is_free:
            return is_free
        return False
    if path.suffix != ".sock" or not operating_system.THIS.has_unix_sockets:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        try:
            sending.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
