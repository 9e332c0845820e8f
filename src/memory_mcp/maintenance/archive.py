"""The file format of a backup: a zip, with a list of its contents and the SHA-256 of each part.

A zip because every system can open one, its parts can be extracted one by one, and a truncated zip is invalid: its
table of contents is at the end.
"""

import errno
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any

from memory_mcp.engines.files.file_tree import LeftOut
from memory_mcp.engines.sqlite.database_kind import LOCKS, DatabaseKind
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.portals.address import NAME as PORTAL_NAME
from memory_mcp.families.stores.paths import STORE
from memory_mcp.maintenance.layout import COPIED_FILES, USERS
from memory_mcp.maintenance.model import Elsewhere, Manifest, ManifestEntry
from memory_mcp.progress import Bytes, ReportProgress, report_nothing
from memory_mcp.system import operating_system

LIST = "manifest.json"
FORMAT = "memory-mcp-backup/"
VERSION = 1
MAX_LIST_BYTES = 512 * 1024 * 1024
MIN_LIST_BYTES = 1024 * 1024  # a list of up to this size is always allowed
MAX_LIST_EXPANSION = 50  # of a longer list, relative to its compressed size
CHUNK_BYTES = 1024 * 1024
PART_TIME = (1980, 1, 1, 0, 0, 0)  # of every part: the list has the real times

_USER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_FOR_FILES = {USERS, "portals", "servers", LOCKS, "backups", "elsewhere"}


class DamagedBackup(Invalid):
    """The file is not a backup, or it was changed after it was made."""


class ArchiveWriter:
    """An archive that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True)
        self._entries: list[ManifestEntry] = []

    def __enter__(self) -> "ArchiveWriter":
        return self

    def __exit__(self, *raised: object) -> None:
        self._zip.close()  # while its file is open: an unfinished archive has no list, and is no backup

    def add(
        self,
        source: Path,
        name: str,
        kind: str,
        schema: int | None = None,
        report_progress: ReportProgress = report_nothing,
    ) -> None:
        """Progress is reported in bytes."""
        total = Bytes(source.stat().st_size)
        part = zipfile.ZipInfo(name, PART_TIME)
        part.external_attr = (stat.S_IFREG | 0o600) << 16
        # Portals are already compressed.
        part.compress_type = zipfile.ZIP_STORED if kind == "portal" else zipfile.ZIP_DEFLATED
        digest, size = sha256(), 0
        with source.open("rb") as reading, self._zip.open(part, "w", force_zip64=True) as writing:
            while chunk := reading.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                writing.write(chunk)
                report_progress(f"packing {name}", size, total)
        modified = source.stat().st_mtime_ns if kind in ("file", "elsewhere") else None
        self._entries.append(ManifestEntry(name, kind, size, digest.hexdigest(), schema, modified))

    def finish(
        self, made_by: str, began_at: str, cut_at: str, left_out: list[LeftOut], elsewhere: list[Elsewhere]
    ) -> Manifest:
        manifest = Manifest(made_by, began_at, cut_at, tuple(self._entries), tuple(left_out), tuple(elsewhere))
        contents: dict[str, Any] = {"format": f"{FORMAT}{VERSION}", **asdict(manifest)}
        contents["seal"] = _digest(contents)
        part = zipfile.ZipInfo(LIST, PART_TIME)
        part.external_attr = (stat.S_IFREG | 0o600) << 16
        part.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(part, json.dumps(contents, ensure_ascii=False, indent=1))
        self._zip.close()
        return manifest


class ArchiveReader:
    """An archive whose list has been checked. Its parts are checked when they are extracted."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._zip = archive
        self.manifest = manifest

    def extract(self, entry: ManifestEntry, target: Path, on_bytes: Callable[[int], object]) -> None:
        """Raises DamagedBackup if the part was changed. `on_bytes` gets the size of each piece that is written."""
        digest, size = sha256(), 0
        with _translate_errors(entry.path), self._zip.open(entry.path) as reading:
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | operating_system.O_BINARY, 0o600)
            with os.fdopen(handle, "wb") as writing:
                while chunk := reading.read(CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
                    if size > entry.size:
                        break
                    writing.write(chunk)
                    on_bytes(len(chunk))
                writing.flush()
                os.fsync(handle)
        if size != entry.size or digest.hexdigest() != entry.sha256:
            raise DamagedBackup(f"{entry.path} in this backup is damaged. Nothing was changed.")
        if entry.modified_ns is not None:
            os.utime(target, ns=(entry.modified_ns, entry.modified_ns))


@contextmanager
def open_backup(path: Path, kinds: Sequence[DatabaseKind]) -> Iterator[ArchiveReader]:
    """Open a backup with databases of these kinds. Raises DamagedBackup if it is incomplete or too new."""
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError as exc:
        raise Invalid(f"There is no file {path}.") from exc
    except OSError as exc:
        raise Unavailable(f"{path} cannot be read ({exc.strerror}).") from exc
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as exc:
        raise DamagedBackup(f"{path.name} is not a backup, or is incomplete. Nothing was changed.") from exc
    with archive:
        yield ArchiveReader(archive, _manifest(archive, kinds))


def is_backup(path: Path) -> bool:
    """Whether a file claims to be a backup of Memory MCP."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _version(_read_list(archive).get("format")) is not None
    except (AppError, OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _manifest(archive: zipfile.ZipFile, kinds: Sequence[DatabaseKind]) -> Manifest:
    contents = _read_list(archive)
    _check_version(contents.get("format"))
    seal = contents.pop("seal", None)
    if seal != _digest(contents):
        raise DamagedBackup(
            "This backup's list of contents was changed or damaged after it was made. Nothing was changed."
        )
    try:
        manifest = Manifest(
            str(contents["made_by"]),
            str(contents["began_at"]),
            str(contents["cut_at"]),
            tuple(ManifestEntry(**one) for one in contents["files"]),
            tuple(LeftOut(**one) for one in contents["left_out"]),
            tuple(Elsewhere(**one) for one in contents["elsewhere"]),
        )
        _check_names(archive, manifest, kinds)
    except (KeyError, TypeError, AttributeError) as exc:
        raise DamagedBackup("This backup's list of contents cannot be read. Nothing was changed.") from exc
    return manifest


def _read_list(archive: zipfile.ZipFile) -> dict[str, Any]:
    with _translate_errors(LIST):
        try:
            listed = archive.getinfo(LIST)
            # Half of the list is hashes, which hardly compress.
            if listed.file_size > min(MAX_LIST_BYTES, MIN_LIST_BYTES + MAX_LIST_EXPANSION * listed.compress_size):
                raise DamagedBackup("This backup's list of contents is too large. Nothing was changed.")
            contents = json.loads(archive.read(LIST))
        except KeyError as exc:
            raise DamagedBackup("This file is not a backup of Memory MCP: it has no list of contents.") from exc
        except (ValueError, RecursionError) as exc:
            raise DamagedBackup("This backup's list of contents cannot be read. Nothing was changed.") from exc
    if not isinstance(contents, dict):
        raise DamagedBackup("This file is not a backup of Memory MCP.")
    return contents


def _version(format_: object) -> int | None:
    """The version of a backup of Memory MCP; None for another program's list."""
    found = re.fullmatch(rf"{FORMAT}(\d{{1,9}})", format_) if isinstance(format_, str) else None
    return int(found[1]) if found else None


def _check_version(format_: object) -> None:
    found = _version(format_)
    if found is None:
        raise DamagedBackup("This file is not a backup of Memory MCP.")
    if found > VERSION:
        raise DamagedBackup(
            f"A newer Memory MCP made this backup (format {found}, this program knows {VERSION}). Upgrade "
            "memory-mcp. Nothing was changed."
        )


def _check_names(archive: zipfile.ZipFile, manifest: Manifest, kinds: Sequence[DatabaseKind]) -> None:
    """Raises DamagedBackup unless the parts are those listed, each at an allowed path."""
    names, listed = archive.namelist(), [entry.path for entry in manifest.files]
    if len(set(listed)) != len(listed) or sorted([*listed, LIST]) != sorted(names):
        raise DamagedBackup("This backup contains other parts than it lists. Nothing was changed.")
    for one in manifest.elsewhere:
        is_named = _USER.fullmatch(one.user) and STORE.fullmatch(one.name)
        if not is_named or one.path != f"elsewhere/{one.user}/{one.name}":
            raise DamagedBackup(f"This backup holds a store {one.name!r}, which no backup does. Nothing was changed.")
    folders = {parent for path in listed for parent in PurePosixPath(path).parents}
    for entry in manifest.files:
        if PurePosixPath(entry.path) in folders or not is_allowed(entry, kinds):
            raise DamagedBackup(f"This backup holds {entry.path!r}, which no backup does. Nothing was changed.")
        if archive.getinfo(entry.path).file_size != entry.size:
            raise DamagedBackup(f"{entry.path} in this backup is damaged. Nothing was changed.")


def is_allowed(entry: ManifestEntry, kinds: Sequence[DatabaseKind]) -> bool:
    """Whether a part may have this name: a path in the data directory that is allowed for its kind."""
    databases = {kind.name: kind for kind in kinds if not kind.is_cache}
    parts = entry.path.split("/")
    if not all(map(_is_plain, parts)) or not _is_count(entry.size) or not _is_count(entry.modified_ns or 0):
        return False
    if entry.kind == "elsewhere":
        return parts[0] == "elsewhere" and len(parts) >= 4 and bool(_USER.fullmatch(parts[1]))
    if parts[0] == USERS:
        is_shared = entry.kind in databases and databases[entry.kind].is_shared
        if len(parts) < 3 or not _USER.fullmatch(parts[1]) or is_shared:
            return False
        parts = parts[2:]
    match entry.kind:
        case "portal":
            name = parts[-1].removesuffix(".db")
            return len(parts) == 3 and parts[0] == "portals" and all(map(PORTAL_NAME.fullmatch, (parts[1], name)))
        case "file":
            taken = _NOT_FOR_FILES.union(*(kind.folders for kind in kinds))
            is_hidden = parts[0].startswith(".") or parts[0].startswith("before-restore-")
            return parts[0] not in taken and not is_hidden if len(parts) > 1 else parts[0] in COPIED_FILES
        case _:
            return entry.kind in databases and databases[entry.kind].has_name(parts)


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 2**63


def _is_plain(part: str) -> bool:
    if part in ("", ".", "..") or "\0" in part or len(part.encode(errors="replace")) > 255:
        return False
    return operating_system.THIS.is_file_name(part)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as exc:
        raise DamagedBackup(f"{name} in this backup is damaged. Nothing was changed.") from exc
    except OSError as exc:
        if exc.errno == errno.EINVAL:  # the table of contents points out of the file
            raise DamagedBackup(f"{name} in this backup is damaged. Nothing was changed.") from exc
        raise Unavailable(f"{name} cannot be extracted ({exc.strerror}). Nothing was changed.") from exc


def _digest(contents: dict[str, Any]) -> str:
    """A hash of the list itself, to detect changes."""
    return sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
