"""Restore of a backup. The backup is checked first, and the former data is moved aside, not deleted."""

import json
import os
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from memory_mcp.clock import Clock
from memory_mcp.engines.chdb import frames
from memory_mcp.engines.files.atomic_write import sync
from memory_mcp.engines.files.data_dir_lock import LOCK, RESTORING, exclusive
from memory_mcp.engines.sqlite import sibling_files
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.sqlite.integrity import check_copy
from memory_mcp.errors import AppError, Invalid, Unavailable, Unusable
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.folders import PORTALS, PortalFolder
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.stores.registry import Registry
from memory_mcp.maintenance import archive
from memory_mcp.maintenance.layout import STORES, USERS, Layout
from memory_mcp.maintenance.model import Elsewhere, Manifest, ManifestEntry, RestoreResult
from memory_mcp.progress import Bytes, ProgressCount, ReportProgress, report_nothing, track
from memory_mcp.relay import link
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.services.access import folder_of
from memory_mcp.services.sync import LINK_FILE
from memory_mcp.system.paths import expand_home

STAGED = ".restoring-"
ASIDE = "before-restore-"
LOCK_TIMEOUT_S = 5.0  # a command may be about to finish
OUTER_VAULT = "memory-of-db-path.db"  # the name of the former file at --db-path, in the aside folder
KEYS_NOTICE = (
    "Users and keys are restored too: a key that was revoked after the backup is valid again. "
    "`memory-mcp keys list` shows them, and `memory-mcp keys revoke` revokes one."
)
MIN_FREE_BYTES = 50 * 1024 * 1024  # after the restore
NOT_REPLACED = {LOCK, RESTORING, "backups", "imports", "exports", "shared", LINK_FILE}  # not in backups
_SIBLINGS = ("", *sibling_files.SUFFIXES, ".lock")  # of a SQLite file


class Restore:
    """Restores backups into one data directory."""

    def __init__(self, layout: Layout, portals: Portals, clock: Clock, former_vault: Path | None = None) -> None:
        """`layout` is the layout after the restore; the current vault's file may be at `former_vault`."""
        self._layout = layout
        self._former_vault = former_vault or layout.vault_path
        self._portals = portals
        self._clock = clock

    def run(self, file: Path, report_progress: ReportProgress = report_nothing) -> RestoreResult:
        """Replace the data directory's contents by the backup's, and move the former contents aside.

        Changes nothing and raises Invalid if any part of the backup is damaged or of an unknown version; Unavailable
        while servers run on the data directory. A shared server without clients ends for it.
        """
        data_dir = self._layout.data_dir
        link.request_running(ServerSocket(str(data_dir)), "stop_if_idle")
        with (
            archive.open_backup(file, self._layout.kinds) as reading,
            exclusive(data_dir, LOCK_TIMEOUT_S),
            _translate_errors(data_dir),
        ):
            finish_restore(data_dir)  # of a former restore that was killed
            delete_abandoned(data_dir)
            staged = data_dir / f"{STAGED}{secrets.token_hex(6)}"  # an engine is identified by its folder's name
            try:
                notices = self._stage(reading, staged, report_progress)
                self._stop_engines()
            except BaseException:
                shutil.rmtree(staged, ignore_errors=True)
                raise
            aside = self._swap(staged)
        manifest = reading.manifest
        return RestoreResult(data_dir, len(manifest.files), manifest.cut_at, aside, tuple(notices), manifest.left_out)

    def _swap(self, staged: Path) -> Path | None:
        """Replace the current data by the staged data. Returns the folder with the former data, if there was any."""
        data_dir, vaults = self._layout.data_dir, (self._layout.vault_path, self._former_vault)
        aside = data_dir / f"{ASIDE}{self._clock():%Y%m%dT%H%M%S%f}"
        had_something = bool(_movable(data_dir)) or any(path.exists() for path in vaults)
        outer, former = map(self._outer, vaults)
        swap = _Swap(data_dir, staged.name, aside.name, outer, former, "aside")
        swap.save()  # from here on, the staged data must stay until the swap is finished
        swap.finish()
        return aside if had_something else None

    def _outer(self, vault: Path) -> str:
        return str(vault) if vault != self._layout.data_dir / "memory.db" else ""

    def _stop_engines(self) -> None:
        """Engines outlive their servers by a minute, and would write to moved files."""
        for tenant in self._layout.tenants():
            for portal in self._layout.portals(tenant):
                self._portals.end_engine(portal)

    # Staging

    def _stage(self, reading: archive.ArchiveReader, staged: Path, report_progress: ReportProgress) -> list[str]:
        """Extract and check everything, and sync it to the disk. Returns notices for the user."""
        manifest = reading.manifest
        self._check_space(manifest)
        staged.mkdir(mode=0o700)
        total = Bytes(sum(entry.size for entry in manifest.files))
        unpacked = ProgressCount("unpacking", total, report_progress)
        for entry in manifest.files:
            target = staged / entry.path
            _make_folders(target.parent, staged)
            reading.extract(entry, target, unpacked.add)
            if kind := self._layout.backed_up_kinds.get(entry.kind):
                _check_database(entry, target, kind)
        self._stage_portals([entry for entry in manifest.files if entry.kind == "portal"], staged, report_progress)
        notices = [
            *self._comment_out_db_path(staged),
            *(self._restore_outer_store(one, staged) for one in manifest.elsewhere),
        ]
        for folder in sorted((staged / "elsewhere").glob("**/"), reverse=True):
            with suppress(OSError):  # not empty
                folder.rmdir()
        for vault in (staged / USERS).glob("*/memory.db"):  # with the file name of --db-path
            vault.rename(vault.with_name(self._layout.vault_path.name))
        _sync_folder(staged)
        if any(entry.kind == "server" for entry in manifest.files):
            notices.append(KEYS_NOTICE)
        return notices

    def _comment_out_db_path(self, staged: Path) -> list[str]:
        """Comment out another db_path in the backup's config.toml: the server would open an empty vault there."""
        config = staged / "config.toml"
        with suppress(FileNotFoundError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            text = config.read_text(encoding="utf-8")
            named = tomllib.loads(text).get("db_path")
            if named and expand_home(str(named)) != self._layout.vault_path:
                config.write_text(re.sub(r"^(?=\s*db_path\b)", "# ", text, flags=re.MULTILINE), encoding="utf-8")
                return [
                    f"config.toml in the backup puts the vault's file at {named}. It is at {self._layout.vault_path}, "
                    "and that line of config.toml is a comment now."
                ]
        return []

    def _check_space(self, manifest: Manifest) -> None:
        needed = MIN_FREE_BYTES + sum(entry.size * (2 if entry.kind == "portal" else 1) for entry in manifest.files)
        free = shutil.disk_usage(self._layout.data_dir).free
        if free < needed:
            raise Unavailable(
                f"The disk has {free // 1_000_000} MB free, and this backup needs {needed // 1_000_000}. "
                "Nothing was changed."
            )

    def _stage_portals(self, entries: list[ManifestEntry], staged: Path, report_progress: ReportProgress) -> None:
        for entry in track(entries, "portals", len(entries), report_progress):
            file = staged / entry.path
            portal = PortalFolder(file.with_suffix(""), Address(file.parent.name, file.stem))
            packed = file.rename(file.with_name(f".{file.name}"))
            try:
                self._portals.imports.restore_portal(portal, packed)
            except Invalid as exc:
                raise Invalid(
                    f"{entry.path} in this backup cannot be used: {exc.message} Nothing was changed."
                ) from exc
            finally:
                with suppress(AppError):
                    self._portals.end_engine(portal)
            packed.unlink()
            (portal.path / frames.LOCK).unlink(missing_ok=True)  # refers to a former engine

    def _restore_outer_store(self, one: Elsewhere, staged: Path) -> str:
        """Restore the files of a store outside of the data directory. Returns a notice for the user."""
        files = staged / one.path
        tenant = folder_of(staged, one.user)
        registry = Registry(tenant)
        folder = next((store.folder for store in registry.all() if store.name == one.name), None)
        if folder is not None and folder.is_dir() and not folder.is_relative_to(staged):
            return (
                f"The store {one.name!r} lies in {folder}, which was not touched; as it was in the backup it is in "
                f"{self._layout.data_dir / one.path}."
            )
        target = tenant / STORES / one.name
        if target.exists() or not files.exists():
            return f"The folder of the store {one.name!r}, {one.folder}, is not here, and nothing of it in the backup."
        _make_folders(target.parent, staged)
        files.rename(target)
        with suppress(AppError):
            registry.remove(one.name)
        registry.add(one.name, f"{STORES}/{one.name}")
        (tenant / "stores.yaml.lock").unlink(missing_ok=True)
        return f"The folder of the store {one.name!r}, {one.folder}, is not here; it is in {STORES}/{one.name} now."


def _check_database(entry: ManifestEntry, path: Path, kind: DatabaseKind) -> None:
    if wrong := check_copy(path, kind.schema):
        raise Invalid(f"{entry.path} in this backup cannot be used: {wrong}. Nothing was changed.")


@dataclass(frozen=True)
class _Swap:
    """The last step, recorded on the disk before each half: after a crash, the next process finishes it."""

    data_dir: Path
    staged: str
    aside: str
    outer_vault: str  # the new path of the vault's file; empty: in the data directory
    former_vault: str  # its current path; empty: in the data directory
    half: str  # 'aside': moving the former data away; 'in': moving the new data in

    def save(self) -> None:
        part = self.data_dir / f"{RESTORING}.part"
        fields = {name: value for name, value in vars(self).items() if name != "data_dir"}
        with part.open("w", encoding="utf-8") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.data_dir / RESTORING)
        sync(self.data_dir)

    def finish(self) -> None:
        """Raises Unusable, with advice, if that is not possible now."""
        try:
            if (self.data_dir / self.staged).is_dir():
                self._swap()
            elif self.half == "aside":
                self._move_back()
            else:
                raise Unusable(
                    f"A restore of this data directory cannot be finished: {self.staged}, the new data, "
                    f"is gone. The former data is in {self.data_dir / self.aside}. Remove {RESTORING}, and "
                    "restore the backup again."
                )
        except OSError as exc:
            raise Unusable(
                f"A restore of this data directory is not finished ({exc.strerror}: {exc.filename}). Free some disk "
                "space, or fix the permissions, and start again: it continues where it stopped. The former data is "
                f"in {self.data_dir / self.aside}."
            ) from exc

    def _swap(self) -> None:
        if self.half == "aside":
            self._move_aside()
            replace(self, half="in").save()
        self._move_in()
        (self.data_dir / RESTORING).unlink(missing_ok=True)
        shutil.rmtree(self.data_dir / self.staged, ignore_errors=True)
        sync(self.data_dir)

    def _move_aside(self) -> None:
        aside = self.data_dir / self.aside
        aside.mkdir(mode=0o700, exist_ok=True)
        for path in _movable(self.data_dir):
            path.rename(aside / path.name)
        for path, kept in self._outer_files():
            _move(path, kept)
        sync(aside)
        sync(self.data_dir)
        if not any(aside.iterdir()):
            aside.rmdir()

    def _move_back(self) -> None:
        """Move the former data back: the staged data is gone, and none of it was moved in."""
        aside = self.data_dir / self.aside
        for path, kept in self._outer_files():
            _move(kept, path)
        for path in sorted(aside.iterdir()) if aside.is_dir() else ():
            path.rename(self.data_dir / path.name)
        if aside.is_dir():
            aside.rmdir()
        (self.data_dir / RESTORING).unlink()
        sync(self.data_dir)

    def _outer_files(self) -> Iterator[tuple[Path, Path]]:
        """The vault's files outside of the data directory, each with its path in the aside folder."""
        for vault, name in ((self.former_vault, OUTER_VAULT), (self.outer_vault, f"other-{OUTER_VAULT}")):
            if vault and (name == OUTER_VAULT or vault != self.former_vault):
                yield from (
                    (Path(vault + ending), self.data_dir / self.aside / f"{name}{ending}") for ending in _SIBLINGS
                )

    def _move_in(self) -> None:
        staged = self.data_dir / self.staged
        if self.outer_vault:
            vault = Path(self.outer_vault)
            vault.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _move(staged / "memory.db", vault)
        for path in sorted(staged.iterdir()) if staged.is_dir() else ():
            path.rename(self.data_dir / path.name)
        sync(self.data_dir)


def finish_restore(data_dir: Path) -> bool:
    """Finish a restore whose process was killed. The caller has exclusive use of the data directory. False if there is
    none.

    The backup was checked before, so the new data is moved in. Raises Unusable, with advice, if that is not possible.
    """
    try:
        fields = json.loads((data_dir / RESTORING).read_text(encoding="utf-8"))
        swap = _Swap(data_dir=data_dir, **{"former_vault": fields["outer_vault"], **fields})
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise Unusable(
            f"{data_dir / RESTORING}, the state of an unfinished restore, cannot be read. Fix its permissions and "
            "start again, or move it away and restore the backup again: the former data is in "
            f"{data_dir / ASIDE}…, or still where it was."
        ) from exc
    swap.finish()
    return True


def abandoned(data_dir: Path) -> list[Path]:
    """Leftovers of a restore that was killed before it changed anything. The caller has exclusive use of the folder."""
    if (data_dir / RESTORING).exists():
        return []
    return [*data_dir.glob(f"{STAGED}*"), *data_dir.glob(f"{RESTORING}.part")]


def delete_abandoned(data_dir: Path) -> None:
    for path in abandoned(data_dir):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _movable(data_dir: Path) -> list[Path]:
    """The files and folders that a restore replaces."""
    return [
        path
        for path in sorted(data_dir.iterdir())
        if path.name not in NOT_REPLACED and not path.name.startswith((ASIDE, STAGED, RESTORING))
    ]


def _move(path: Path, target: Path) -> None:
    """Move a file atomically, also to another disk."""
    if not path.exists():
        return
    part = target.with_name(f"{target.name}.part")
    shutil.copyfile(path, part)
    part.chmod(0o600)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(target)
    sync(target.parent)
    path.unlink()


def _make_folders(folder: Path, top: Path) -> None:
    for missing in reversed([one for one in (folder, *folder.parents) if one.is_relative_to(top) and not one.exists()]):
        missing.mkdir(mode=0o700)


def _sync_folder(folder: Path) -> None:
    """Sync the folders, and the files that engines wrote; other files are synced already."""
    for current, _, files in os.walk(folder):
        for name in files:
            path = Path(current) / name
            if PORTALS in path.parts and path.is_file() and not path.is_symlink():
                sync(path)
        sync(Path(current))


@contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"{folder} cannot be written ({exc.strerror}).") from exc
