"""Backup of a data directory into one file, while servers run."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path

from memory_mcp import __version__
from memory_mcp.clock import Clock, precise_stamp
from memory_mcp.engines.files.atomic_write import sync
from memory_mcp.engines.files.file_tree import LeftOut, Tree
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.staging import staging, translate_write_errors
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.sqlite.integrity import check_copy
from memory_mcp.engines.sqlite.snapshot import Snapshot, open_snapshot
from memory_mcp.errors import AppError, Conflict, NotFound, Unavailable, Unusable
from memory_mcp.families.maintenance import DatabaseFile, Tenant
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.model import Store
from memory_mcp.families.stores.registry import Registry
from memory_mcp.maintenance import archive
from memory_mcp.maintenance.layout import COPIED_FILES, STORES, Layout
from memory_mcp.maintenance.model import BackupResult, Elsewhere, ManifestEntry
from memory_mcp.progress import ReportProgress, report_nothing, track
from memory_mcp.system.paths import expand_home

LOCK_WAIT_S = 0.25  # for one lock while others are held
RETRY_INTERVAL_S = 0.1  # before the next attempt; servers may write meanwhile
LOCK_TIMEOUT_S = 60.0  # for all attempts


@dataclass
class _Cut:
    """The data at one moment."""

    at: str
    files: list[tuple[DatabaseFile, Snapshot]] = field(default_factory=list)
    plain: list[tuple[Path, str]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    stores: "_Stores" = field(default_factory=lambda: _Stores())


@dataclass
class _Stores:
    trees: list[Tree] = field(default_factory=list)
    waiting: dict[Path, Store] = field(default_factory=dict)  # each folder once: its lock is acquired once
    elsewhere: list[Elsewhere] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


class Backup:
    """Makes backups of one data directory."""

    def __init__(self, layout: Layout, portals: Portals, clock: Clock) -> None:
        self._layout = layout
        self._portals = portals
        self._clock = clock

    def make(self, target: Path, report_progress: ReportProgress = report_nothing) -> BackupResult:
        """Write everything to a file, atomically. If something must be left out, a former backup stays, and the new one
        gets another name beside it.

        It contains every write that was acknowledged before this began. All SQLite files and stores are from one
        moment, `cut_at`; each portal is from its own earlier moment.
        """
        target = expand_home(target).absolute()
        check_target(target)
        began_at = precise_stamp(self._clock())
        with translate_write_errors(target), staging(target.parent) as folder:
            part = folder / "backup.zip"
            with (
                os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
                archive.ArchiveWriter(file) as writer,
            ):
                left_out = self._add_portals(writer, folder, report_progress)
                stores = self._stores(folder)
                self._copy_trees(stores.trees, report_progress)
                with self._cut(stores, folder) as cut:
                    left_out += [*cut.left_out, *self._add_databases(writer, cut, folder, report_progress)]
                left_out += self._add_files(writer, cut, cut.stores.trees, report_progress)
                elsewhere = cut.stores.elsewhere
                manifest = writer.finish(f"memory-mcp {__version__}", began_at, cut.at, left_out, elsewhere)
                file.flush()
                os.fsync(file.fileno())
            with part.open("rb") as written:
                digest = file_digest(written, "sha256").hexdigest()
            if left_out and target.exists():  # the former one may have the missing parts
                target = target.with_name(f"{target.stem}-incomplete{target.suffix}")
                check_target(target)
            part.replace(target)
            sync(target.parent)
        return BackupResult(
            target, len(manifest.files), target.stat().st_size, digest, cut.at, tuple(manifest.left_out)
        )

    # Portals

    def _add_portals(
        self, writer: archive.ArchiveWriter, folder: Path, report_progress: ReportProgress
    ) -> list[LeftOut]:
        """A portal that cannot be backed up is left out, and the others are added."""
        left_out = []
        portals = [(tenant, one) for tenant in self._layout.tenants() for one in self._layout.portals(tenant)]
        for tenant, portal in track(portals, "portals", len(portals), report_progress):
            name = self._layout.portal_name(tenant, portal)
            copy = folder / "portal.tar"
            try:
                self._portals.exports.back_up(portal, copy, is_paced=False)
                writer.add(copy, name, "portal")
            except AppError as exc:
                left_out.append(LeftOut(name, exc.message))
            finally:
                copy.unlink(missing_ok=True)
        return left_out

    # Stores

    def _stores(self, folder: Path, before: Sequence[Tree] = ()) -> _Stores:
        """The folders of stores, and the stores whose locks are needed. Copies in `before` are reused."""
        found = _Stores()
        for tenant in self._layout.tenants():
            ours = tenant.folder / STORES  # all of it, including stores that are no longer registered
            if not ours.is_symlink():
                found.trees.append(_tree(ours, folder, f"{tenant.prefix}{STORES}", markdown_only=False))
            try:
                known = Registry(tenant.folder).all()
            except AppError as exc:
                found.left_out.append(LeftOut(f"{tenant.prefix}stores.yaml", exc.message))
                continue
            for store in known:
                self._add_store(found, tenant, store, folder)
        copied = {(tree.folder, tree.name): tree for tree in before}
        found.trees = [copied.get((tree.folder, tree.name), tree) for tree in found.trees]
        return found

    def _add_store(self, found: _Stores, tenant: Tenant, store: Store, folder: Path) -> None:
        if not store.folder.is_dir():
            if not store.is_ours:
                found.left_out.append(LeftOut(f"{tenant.prefix}{store.name}", f"{store.folder} is not there"))
            return
        found.waiting.setdefault(store.folder.resolve(), store)
        inside = _archive_name(tenant, store, self._layout.kinds)
        if inside is None:
            name = f"elsewhere/{tenant.user}/{store.name}"
            found.elsewhere.append(Elsewhere(tenant.user, store.name, str(store.folder), name))
            found.trees.append(_tree(store.folder, folder, name, markdown_only=True))
        elif not inside.startswith(f"{tenant.prefix}{STORES}/"):
            found.trees.append(_tree(store.folder, folder, inside, markdown_only=False))

    @staticmethod
    def _copy_trees(trees: Sequence[Tree], report_progress: ReportProgress) -> None:
        for tree in trees:
            tree.update_copy(report_progress)

    # The cut

    @contextmanager
    def _cut(self, stores: _Stores, folder: Path) -> Iterator[_Cut]:
        """Acquire all locks, pin all data, and release the locks. Writers wait meanwhile: a SQLite file takes about a
        millisecond, whatever its size, and for each file of a store its time is read. The pinned data can be read
        until the block ends.

        If another process holds a lock for long, all locks are released, so that other processes can write, and
        another attempt follows. Raises Unavailable after LOCK_TIMEOUT_S.
        """
        _allow_many_files()
        until = time.monotonic() + LOCK_TIMEOUT_S
        with ExitStack() as pinned:
            while True:
                try:
                    cut = self._inspect(stores, folder, pinned)
                    break
                except _LockHeld as exc:
                    pinned.close()
                    if time.monotonic() > until:
                        raise Unavailable(exc.message) from exc
                    time.sleep(RETRY_INTERVAL_S)
            yield cut

    def _inspect(self, stores: _Stores, folder: Path, pinned: ExitStack) -> _Cut:
        """Locks are acquired in the same order as in servers, to avoid deadlocks."""
        with ExitStack() as locks:
            cut = _Cut("")
            tenants = self._layout.tenants()
            kinds = self._layout.backed_up_kinds.values()
            first = [kind for kind in kinds if kind.is_locked_first]
            for tenant in tenants:
                self._pin(self._layout.databases(tenant, first), cut, locks, pinned)
            for tenant in tenants:
                # While the registries are locked, no server creates, moves or deletes a project.
                rest = [kind for kind in kinds if not kind.is_locked_first]
                self._pin(self._layout.databases(tenant, rest), cut, locks, pinned)
                self._copy_plain_files(tenant, cut, locks, folder)
            cut.stores = self._stores(folder, before=stores.trees)  # there may be more by now
            for store in cut.stores.waiting.values():
                with suppress(NotFound):  # its folder is gone: nothing to wait for
                    _acquire(locks, StoreFolder(store, durable=False).lock(LOCK_WAIT_S))
            for tree in cut.stores.trees:
                tree.update_copy()
            cut.left_out += cut.stores.left_out
            cut.at = precise_stamp(self._clock())
        return cut

    @staticmethod
    def _pin(files: Iterable[DatabaseFile], cut: _Cut, locks: ExitStack, pinned: ExitStack) -> None:
        for file in files:
            file.lock.parent.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(file.lock)
            _acquire(locks, lock.acquire(LOCK_WAIT_S))
            try:
                cut.files.append((file, pinned.enter_context(open_snapshot(file.path, lock.note()))))
            except AppError as exc:
                cut.left_out.append(LeftOut(file.name, exc.message))

    @staticmethod
    def _copy_plain_files(tenant: Tenant, cut: _Cut, locks: ExitStack, folder: Path) -> None:
        if (tenant.folder / "stores.yaml").exists():
            _acquire(locks, FileLock(tenant.folder / "stores.yaml.lock").acquire(LOCK_WAIT_S))
        for name in COPIED_FILES:
            path, copy = tenant.folder / name, folder / f"{tenant.user}-{name}"
            try:
                content, changed_ns = path.read_bytes(), path.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            except OSError as exc:
                cut.left_out.append(LeftOut(f"{tenant.prefix}{name}", f"it cannot be read ({exc.strerror})"))
                continue
            copy.write_bytes(content)
            os.utime(copy, ns=(changed_ns, changed_ns))
            cut.plain.append((copy, f"{tenant.prefix}{name}"))

    # After the cut

    def _add_databases(
        self, writer: archive.ArchiveWriter, cut: _Cut, folder: Path, report_progress: ReportProgress
    ) -> list[LeftOut]:
        left_out = []
        for file, seen in cut.files:
            copy = folder / "copy.db"
            try:
                seen.copy(copy, file.name, report_progress)
                if wrong := check_copy(copy, file.kind.schema):
                    left_out.append(LeftOut(file.name, f"{wrong}; see `memory-mcp doctor`"))
                else:
                    writer.add(copy, file.name, file.kind.name, seen.version, report_progress)
            except AppError as exc:
                left_out.append(LeftOut(file.name, exc.message))
            finally:
                copy.unlink(missing_ok=True)
        return left_out

    def _add_files(
        self, writer: archive.ArchiveWriter, cut: _Cut, trees: Sequence[Tree], report_progress: ReportProgress
    ) -> list[LeftOut]:
        for copy, name in cut.plain:
            writer.add(copy, name, "file")
        seen: set[str] = set()  # a store may be inside another one, and in stores/
        left_out: list[LeftOut] = []
        files = [(tree, *file) for tree in trees for file in tree.files()]
        for tree, copy, name in track(files, "files", len(files), report_progress):
            if name in seen:
                continue
            seen.add(name)
            entry = ManifestEntry(name, "elsewhere" if tree.markdown_only else "file", 0, "")
            if archive.is_allowed(entry, self._layout.kinds):
                writer.add(copy, name, entry.kind)
            else:
                left_out.append(LeftOut(name, "a backup cannot contain a file of this name"))
        return [*left_out, *(one for tree in trees for one in tree.left_out)]


class _LockHeld(Unavailable):
    """Another process holds a lock for too long."""


def _acquire(locks: ExitStack, lock: AbstractContextManager[None]) -> None:
    """Acquire a lock in addition to the others. Raises _LockHeld if another process holds it for long."""
    try:
        locks.enter_context(lock)
    except Unusable:
        raise
    except Unavailable as exc:
        raise _LockHeld(exc.message) from exc
    except OSError as exc:
        raise Unusable(f"{exc.filename} cannot be opened ({exc.strerror}). Correct its permissions.") from exc


def _tree(source: Path, folder: Path, name: str, *, markdown_only: bool) -> Tree:
    return Tree(source, folder / "trees" / name, name, markdown_only)


def _archive_name(tenant: Tenant, store: Store, kinds: Sequence[DatabaseKind]) -> str | None:
    """The name of a store's folder in the archive, if it is in the tenant's folder and may be stored there."""
    folder, top = store.folder.resolve(), tenant.folder.resolve()
    if not folder.is_relative_to(top):
        return None
    name = folder.relative_to(top).as_posix()
    probe = ManifestEntry(f"{tenant.prefix}{name}/x", "file", 0, "")
    return f"{tenant.prefix}{name}" if name != "." and archive.is_allowed(probe, kinds) else None


def check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise NotFound(f"There is no folder {target.parent}. Create it first.")
    if target.is_dir():
        raise Conflict(f"{target} is a folder. Name a file in it, such as {target / 'memory.zip'}.")
    if target.exists() and not (target.is_file() and archive.is_backup(target)):  # never read a device
        raise Conflict(f"{target} exists already and is not a backup. Choose another name.")


def _allow_many_files() -> None:
    """Raise the limit of open files to the maximum: each project needs some."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 10_240), hard)
        )
