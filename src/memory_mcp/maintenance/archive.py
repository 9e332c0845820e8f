"""A backup in one file: a zip, with a list of what it holds and the SHA-256 of each part.

A zip because every system opens one, its parts can be taken out one by one, and a part of one is no zip: its table of
contents stands at the end.
"""

import errno
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
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
from memory_mcp.maintenance.layout import KEPT, USERS
from memory_mcp.maintenance.model import Elsewhere, Kind, Manifest, ManifestEntry

LIST = "manifest.json"
FORMAT = "memory-mcp-backup/"
VERSION = 1
MAX_LIST_BYTES = 512 * 1024 * 1024  # bytes
MIN_LIST_BYTES = 1024 * 1024  # a list of contents may always have this size
MAX_LIST_EXPANSION = 50  # a longer one may have this many times its packed size
AT_ONCE = 1024 * 1024
USUAL = (1980, 1, 1, 0, 0, 0)  # the time of every part: when it was made stands in the list

_USER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_FOR_FILES = {USERS, "portals", "servers", LOCKS, "backups", "elsewhere"}


class DamagedBackup(Invalid):
    """The file is no backup, or not as it was when it was made."""


class ArchiveWriter:
    """An archive that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True)
        self._entries: list[ManifestEntry] = []

    def add(self, source: Path, name: str, kind: Kind, schema: int | None = None) -> None:
        part = zipfile.ZipInfo(name, USUAL)
        part.external_attr = (stat.S_IFREG | 0o600) << 16
        # A portal is compressed as it is.
        part.compress_type = zipfile.ZIP_STORED if kind == "portal" else zipfile.ZIP_DEFLATED
        digest, size = sha256(), 0
        with source.open("rb") as reading, self._zip.open(part, "w", force_zip64=True) as writing:
            while chunk := reading.read(AT_ONCE):
                digest.update(chunk)
                size += len(chunk)
                writing.write(chunk)
        modified = source.stat().st_mtime_ns if kind in ("file", "elsewhere") else None
        self._entries.append(ManifestEntry(name, kind, size, digest.hexdigest(), schema, modified))

    def finish(
        self, made_by: str, began_at: str, cut_at: str, left_out: list[LeftOut], elsewhere: list[Elsewhere]
    ) -> Manifest:
        manifest = Manifest(made_by, began_at, cut_at, tuple(self._entries), tuple(left_out), tuple(elsewhere))
        said: dict[str, Any] = {"format": f"{FORMAT}{VERSION}", **asdict(manifest)}
        said["seal"] = _seal(said)
        part = zipfile.ZipInfo(LIST, USUAL)
        part.external_attr = (stat.S_IFREG | 0o600) << 16
        part.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(part, json.dumps(said, ensure_ascii=False, indent=1))
        self._zip.close()
        return manifest


class ArchiveReader:
    """An archive whose list is known to be whole. Its parts are checked as they are taken out."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._zip = archive
        self.manifest = manifest

    def take_out(self, entry: ManifestEntry, target: Path) -> None:
        """Raises DamagedBackup unless the part is as it was."""
        digest, size = sha256(), 0
        with _translate_errors(entry.path), self._zip.open(entry.path) as reading:
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(handle, "wb") as writing:
                while chunk := reading.read(AT_ONCE):
                    digest.update(chunk)
                    size += len(chunk)
                    if size > entry.size:
                        break
                    writing.write(chunk)
                writing.flush()
                os.fsync(handle)
        if size != entry.size or digest.hexdigest() != entry.sha256:
            raise DamagedBackup(f"{entry.path} in this backup is damaged. Nothing was changed.")
        if entry.modified_ns is not None:
            os.utime(target, ns=(entry.modified_ns, entry.modified_ns))


@contextmanager
def opened(path: Path, kinds: Sequence[DatabaseKind]) -> Iterator[ArchiveReader]:
    """A backup with databases of these kinds. Raises DamagedBackup unless it is whole and of a version this program
    knows."""
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError as exc:
        raise Invalid(f"There is no file {path}.") from exc
    except OSError as exc:
        raise Unavailable(f"{path} cannot be read ({exc.strerror}).") from exc
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as exc:
        raise DamagedBackup(f"{path.name} is no backup, or not all of it is there. Nothing was changed.") from exc
    with archive:
        yield ArchiveReader(archive, _manifest(archive, kinds))


def is_backup(path: Path) -> bool:
    """Whether a file says of itself that it is a backup of ours."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _version(_said(archive).get("format")) is not None
    except (AppError, OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _manifest(archive: zipfile.ZipFile, kinds: Sequence[DatabaseKind]) -> Manifest:
    said = _said(archive)
    _check_version(said.get("format"))
    seal = said.pop("seal", None)
    if seal != _seal(said):
        raise DamagedBackup(
            "This backup's list of contents was changed or damaged after it was made. Nothing was changed."
        )
    try:
        manifest = Manifest(
            str(said["made_by"]),
            str(said["began_at"]),
            str(said["cut_at"]),
            tuple(ManifestEntry(**one) for one in said["files"]),
            tuple(LeftOut(**one) for one in said["left_out"]),
            tuple(Elsewhere(**one) for one in said["elsewhere"]),
        )
        _check_names(archive, manifest, kinds)
    except (KeyError, TypeError, AttributeError) as exc:
        raise DamagedBackup("This backup's list of contents cannot be read. Nothing was changed.") from exc
    return manifest


def _said(archive: zipfile.ZipFile) -> dict[str, Any]:
    with _translate_errors(LIST):
        try:
            listed = archive.getinfo(LIST)
            # Half of the list is digests, which hardly compress.
            if listed.file_size > min(MAX_LIST_BYTES, MIN_LIST_BYTES + MAX_LIST_EXPANSION * listed.compress_size):
                raise DamagedBackup("This backup's list of contents is too large to be one. Nothing was changed.")
            said = json.loads(archive.read(LIST))
        except KeyError as exc:
            raise DamagedBackup("This file is no backup of Memory MCP: it has no list of contents.") from exc
        except (ValueError, RecursionError) as exc:
            raise DamagedBackup("This backup's list of contents cannot be read. Nothing was changed.") from exc
    if not isinstance(said, dict):
        raise DamagedBackup("This file is no backup of Memory MCP.")
    return said


def _version(format_: object) -> int | None:
    """Of a backup of ours; None for another program's list."""
    found = re.fullmatch(rf"{FORMAT}(\d{{1,9}})", format_) if isinstance(format_, str) else None
    return int(found[1]) if found else None


def _check_version(format_: object) -> None:
    found = _version(format_)
    if found is None:
        raise DamagedBackup("This file is no backup of Memory MCP.")
    if found > VERSION:
        raise DamagedBackup(
            f"A newer Memory MCP made this backup (format {found}, this program knows {VERSION}). Upgrade "
            "memory-mcp. Nothing was changed."
        )


def _check_names(archive: zipfile.ZipFile, manifest: Manifest, kinds: Sequence[DatabaseKind]) -> None:
    """Raises DamagedBackup unless the parts are those listed, and each goes where such a part may."""
    names, listed = archive.namelist(), [entry.path for entry in manifest.files]
    if len(set(listed)) != len(listed) or sorted([*listed, LIST]) != sorted(names):
        raise DamagedBackup("This backup holds other parts than it lists. Nothing was changed.")
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
    """Whether a part may have this name: it stays in the data directory, and its kind belongs there."""
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
            return parts[0] not in taken and not is_hidden if len(parts) > 1 else parts[0] in KEPT
        case _:
            return entry.kind in databases and databases[entry.kind].has_name(parts)


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 2**63


def _is_plain(part: str) -> bool:
    if part in ("", ".", "..") or "\0" in part or len(part.encode(errors="replace")) > 255:
        return False
    return os.name != "nt" or not re.search(r'[<>:"|?*\\]', part)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as exc:
        raise DamagedBackup(f"{name} in this backup is damaged. Nothing was changed.") from exc
    except OSError as exc:
        if exc.errno == errno.EINVAL:  # the table of contents points out of the file
            raise DamagedBackup(f"{name} in this backup is damaged. Nothing was changed.") from exc
        raise Unavailable(f"{name} cannot be taken out ({exc.strerror}). Nothing was changed.") from exc


def _seal(said: dict[str, Any]) -> str:
    """Of the list itself: what it says is as it was, too."""
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
