"""A backup put in the place of what is there: checked first, and nothing is deleted."""

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

from memory_mcp.access import folder_of
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
from memory_mcp.maintenance.model import Elsewhere, Manifest, ManifestEntry, Restored
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.sync import LINK_FILE

STAGED = ".restoring-"
ASIDE = "before-restore-"
WAITING = 5.0  # seconds for a command that is just ending
OUTER_VAULT = "memory-of-db-path.db"  # what the file that --db-path named is called aside
KEYS_TOO = (
    "Users and keys are as they were in the backup, too: a key that was revoked since is good again. memory-mcp keys "
    "list shows them, memory-mcp keys revoke takes one back."
)
SPARE = 50 * 1024 * 1024  # bytes that are left free
STAYS = {LOCK, RESTORING, "backups", "imports", "exports", LINK_FILE}  # what no backup holds
_BESIDE = ("", *sibling_files.SUFFIXES, ".lock")  # what belongs to a SQLite file


class Restore:
    """Restores backups into one data directory."""

    def __init__(self, layout: Layout, portals: Portals, clock: Clock, former_vault: Path | None = None) -> None:
        """`layout` is what it is to be; the vault's file that is there now may lie elsewhere, at `former_vault`."""
        self._layout = layout
        self._former_vault = former_vault or layout.vault_path
        self._portals = portals
        self._clock = clock

    def run(self, file: Path, report_progress: ReportProgress = report_nothing) -> Restored:
        """Put what a backup holds in the place of what is there, which is moved aside.

        Raises Invalid, and changes nothing, unless every part of the backup is as it was made and of a version this
        program knows; Unavailable, and changes nothing, while servers run on the data directory.
        """
        data_dir = self._layout.data_dir
        with (
            archive.opened(file, self._layout.kinds) as reading,
            exclusive(data_dir, WAITING),
            _translate_errors(data_dir),
        ):
            finish_restore(data_dir)  # of another, that was killed
            clear_abandoned(data_dir)
            staged = data_dir / f"{STAGED}{secrets.token_hex(6)}"  # an engine goes by its folder's name
            try:
                notices = self._stage(reading, staged, report_progress)
                self._dismiss_engines()
            except BaseException:
                shutil.rmtree(staged, ignore_errors=True)
                raise
            aside = self._swap(staged)
        manifest = reading.manifest
        return Restored(data_dir, len(manifest.files), manifest.cut_at, aside, tuple(notices), manifest.left_out)

    def _swap(self, staged: Path) -> Path | None:
        """Put what is staged in the place of what is there. Returns where that is now; None if there was nothing."""
        data_dir, vaults = self._layout.data_dir, (self._layout.vault_path, self._former_vault)
        aside = data_dir / f"{ASIDE}{self._clock():%Y%m%dT%H%M%S%f}"
        had_something = bool(_movable(data_dir)) or any(path.exists() for path in vaults)
        outer, former = map(self._outer, vaults)
        swap = _Swap(data_dir, staged.name, aside.name, outer, former, "aside")
        swap.note()  # from here on, what is staged is needed, whatever happens
        swap.finish()
        return aside if had_something else None

    def _outer(self, vault: Path) -> str:
        return str(vault) if vault != self._layout.data_dir / "memory.db" else ""

    def _dismiss_engines(self) -> None:
        """An engine outlives its servers by a minute, and would write to what is no longer there."""
        for tenant in self._layout.tenants():
            for portal in self._layout.portals(tenant):
                self._portals.dismiss(portal)

    # Staging

    def _stage(self, reading: archive.ArchiveReader, staged: Path, report_progress: ReportProgress) -> list[str]:
        """Take everything out, checked, and on the disk. Returns what users should know of it."""
        manifest = reading.manifest
        self._check_space(manifest)
        staged.mkdir(mode=0o700)
        for number, entry in enumerate(manifest.files):
            report_progress("checking", number, len(manifest.files))
            target = staged / entry.path
            _make_folders(target.parent, staged)
            reading.take_out(entry, target)
            if kind := self._layout.kept_kinds.get(entry.kind):
                _check_database(entry, target, kind)
        self._stage_portals([entry for entry in manifest.files if entry.kind == "portal"], staged, report_progress)
        notices = [*self._settled_vault(staged), *(self._placed(one, staged) for one in manifest.elsewhere)]
        for folder in sorted((staged / "elsewhere").glob("**/"), reverse=True):
            with suppress(OSError):  # something is in it
                folder.rmdir()
        for vault in (staged / USERS).glob("*/memory.db"):  # called as --db-path calls the local user's
            vault.rename(vault.with_name(self._layout.vault_path.name))
        _sync_all(staged)
        report_progress("checking", len(manifest.files), len(manifest.files))
        if any(entry.kind == "server" for entry in manifest.files):
            notices.append(KEYS_TOO)
        return notices

    def _settled_vault(self, staged: Path) -> list[str]:
        """Settings that put the vault's file elsewhere than it is restored to would show an empty one."""
        config = staged / "config.toml"
        with suppress(FileNotFoundError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            text = config.read_text(encoding="utf-8")
            named = tomllib.loads(text).get("db_path")
            if named and Path(str(named)).expanduser() != self._layout.vault_path:
                config.write_text(re.sub(r"^(?=\s*db_path\b)", "# ", text, flags=re.MULTILINE), encoding="utf-8")
                return [
                    f"config.toml in the backup puts the vault's file at {named}. It is at {self._layout.vault_path}, "
                    "and that line of config.toml is a comment now."
                ]
        return []

    def _check_space(self, manifest: Manifest) -> None:
        needed = sum(entry.size * (2 if entry.kind == "portal" else 1) for entry in manifest.files)
        free = shutil.disk_usage(self._layout.data_dir).free
        if free < needed + SPARE:
            raise Unavailable(
                f"The disk has {free // 1_000_000} MB free, and this backup needs {(needed + SPARE) // 1_000_000}. "
                "Nothing was changed."
            )

    def _stage_portals(self, entries: list[ManifestEntry], staged: Path, report_progress: ReportProgress) -> None:
        for number, entry in enumerate(entries):
            report_progress("portals", number, len(entries))
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
                    self._portals.dismiss(portal)
            packed.unlink()
            (portal.path / frames.LOCK).unlink(missing_ok=True)  # it says where an engine was
        report_progress("portals", len(entries), len(entries))

    def _placed(self, one: Elsewhere, staged: Path) -> str:
        """Put the files of a store outside of the data directory where they can be used. Returns what users should
        know of it."""
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
    """The last step, noted on the disk before each half: the next process after a crash finishes it."""

    data_dir: Path
    staged: str
    aside: str
    outer_vault: str  # where the vault's file is to be; empty: in the data directory
    former_vault: str  # where it is; empty: in the data directory
    half: str  # 'aside': what is there is being moved away; 'in': what is new is being moved in

    def note(self) -> None:
        part = self.data_dir / f"{RESTORING}.part"
        said = {name: value for name, value in vars(self).items() if name != "data_dir"}
        with part.open("w", encoding="utf-8") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.data_dir / RESTORING)
        sync(self.data_dir)

    def finish(self) -> None:
        """Raises Unusable, saying what to do, if it cannot be done now."""
        try:
            if (self.data_dir / self.staged).is_dir():
                self._swap()
            elif self.half == "aside":
                self._put_back()
            else:
                raise Unusable(
                    f"A restore of this data directory cannot be finished: {self.staged}, which held what was to come, "
                    f"is gone. What was here before is in {self.data_dir / self.aside}. Remove {RESTORING}, and "
                    "restore the backup again."
                )
        except OSError as exc:
            raise Unusable(
                f"A restore of this data directory is not finished ({exc.strerror}: {exc.filename}). Free some disk "
                "space, or mend the permissions, and start again: it goes on where it stopped. What was here before is "
                f"in {self.data_dir / self.aside}."
            ) from exc

    def _swap(self) -> None:
        if self.half == "aside":
            self._move_aside()
            replace(self, half="in").note()
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

    def _put_back(self) -> None:
        """What was to come is gone, so nothing of it came in: what was moved aside returns."""
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
        """The vault's files outside of the data directory, each with what it is called aside."""
        for vault, name in ((self.former_vault, OUTER_VAULT), (self.outer_vault, f"other-{OUTER_VAULT}")):
            if vault and (name == OUTER_VAULT or vault != self.former_vault):
                yield from (
                    (Path(vault + ending), self.data_dir / self.aside / f"{name}{ending}") for ending in _BESIDE
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
    """Finish a restore whose process was killed. The caller uses the data directory alone. False if there is none.

    It had been checked, and what is there now is neither the old nor the new: the new it becomes. Raises Unusable,
    saying what to do, if that cannot be done now.
    """
    try:
        said = json.loads((data_dir / RESTORING).read_text(encoding="utf-8"))
        swap = _Swap(data_dir=data_dir, **{"former_vault": said["outer_vault"], **said})
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise Unusable(
            f"{data_dir / RESTORING} says how far a restore came, and cannot be read. If it is not yours to read, mend "
            f"that and start again. Otherwise move it away, and restore the backup again: what was here before it is "
            f"in {data_dir / ASIDE}…, or still where it was."
        ) from exc
    swap.finish()
    return True


def abandoned(data_dir: Path) -> list[Path]:
    """What a restore has left that was killed before it changed anything. The caller uses the data directory alone."""
    if (data_dir / RESTORING).exists():
        return []
    return [*data_dir.glob(f"{STAGED}*"), *data_dir.glob(f"{RESTORING}.part")]


def clear_abandoned(data_dir: Path) -> None:
    for path in abandoned(data_dir):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _movable(data_dir: Path) -> list[Path]:
    """What is there and a restore replaces."""
    return [
        path
        for path in sorted(data_dir.iterdir())
        if path.name not in STAYS and not path.name.startswith((ASIDE, STAGED, RESTORING))
    ]


def _move(path: Path, target: Path) -> None:
    """Also to another disk; all of it or nothing."""
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


def _sync_all(folder: Path) -> None:
    """On the disk: files are already, or are an engine's; now their names."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place) / name
            if PORTALS in path.parts and path.is_file() and not path.is_symlink():
                sync(path)
        sync(Path(place))


@contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"{folder} cannot be written ({exc.strerror}).") from exc
