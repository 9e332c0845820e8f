"""Files to import, which a page uploads piece by piece: there is no larger message than a piece."""

import base64
import binascii
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any

from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import FolderEntry, Outside, Root
from memory_mcp.errors import Conflict, Invalid
from memory_mcp.system import operating_system

IMPORTS = "imports"  # in a user's folder
UPLOADS = "uploads"  # in imports/
MIN_IDLE_S = 60  # after its last piece, until an upload may be deleted for another
MAX_AGE_S = 3600  # of a file since it was last written or read
MAX_UPLOADS_PER_USER = 10  # files that are not imported yet
MAX_TOTAL_FACTOR = 2  # of all uploads together, times the limit of one file


def add(imports: Path, name: str, offset: int, data: str, max_bytes: int) -> int:
    """Append a piece. Returns how many bytes of the file are stored. A piece that was stored before is accepted again:
    the page may not have received the answer.

    Raises Conflict while there are too many recent files that are not imported yet.
    """
    piece = _decoded(data)
    if offset + len(piece) > max_bytes:
        raise Invalid(f"data: the file is over {max_bytes} bytes. Split it.", code="too_large", field="data")
    folder = imports / UPLOADS
    make_private_folder(folder)
    if offset == 0:
        delete_expired(folder)
    with FileLock(folder).acquire():  # among all servers: what is counted must still be true when the piece is written
        _delete_idle_uploads(folder, name, offset + len(piece), max_bytes)
        _append(imports, name, offset, piece)
    return offset + len(piece)


def _append(imports: Path, name: str, offset: int, piece: bytes) -> None:
    with _entry(imports, (UPLOADS, name)) as entry, os.fdopen(_open_for_append(entry), "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size not in (offset, offset + len(piece)) and offset != 0:
            raise Conflict(f"offset: {size} bytes are here. Go on from there.", field="offset", bytes=size)
        file.seek(offset)
        file.truncate()
        file.write(piece)


def delete(imports: Path, source: str) -> None:
    """Delete an upload that was imported; another file stays."""
    if is_upload(source):
        with suppress(OSError, Invalid), _entry(imports, PurePath(source).parts) as entry:
            entry.remove()


def is_upload(source: str) -> bool:
    parts = PurePath(source).parts
    return len(parts) == 2 and parts[0] == UPLOADS and parts[1] != ".."


def _delete_idle_uploads(folder: Path, name: str, size: int, max_bytes: int) -> None:
    """Delete uploads that were refused or abandoned, oldest first, until another one fits.

    Raises Conflict if it does not: recent uploads stay.
    """
    others = sorted(((p, s) for p, s in _files(folder) if p.name != name), key=lambda other: other[1].st_mtime)
    idle_since = time.time() - MIN_IDLE_S
    while others and not _fits(others, size, max_bytes) and others[0][1].st_mtime < idle_since:
        others.pop(0)[0].unlink(missing_ok=True)
    if _fits(others, size, max_bytes):
        return
    advice = f"Import them first, or try again in {MIN_IDLE_S} seconds: older uploads are deleted then."
    if len(others) >= MAX_UPLOADS_PER_USER:
        details: dict[str, Any] = {"field": "name", "most": MAX_UPLOADS_PER_USER}
        raise Conflict(f"name: {len(others)} uploads are not imported yet. {advice}", **details)
    raise Conflict(f"data: uploads that are not imported yet take up too much. {advice}", field="data")


def _fits(others: list[tuple[Path, os.stat_result]], size: int, max_bytes: int) -> bool:
    """Whether an upload of this size fits beside others. One alone always does."""
    total = sum(status.st_size for _, status in others) + size
    return not others or (len(others) < MAX_UPLOADS_PER_USER and total <= MAX_TOTAL_FACTOR * max_bytes)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise Invalid("data: this is not base64.", field="data") from exc


def _open_for_append(entry: FolderEntry) -> int:
    flags = os.O_RDWR | os.O_CREAT | operating_system.O_BINARY | operating_system.O_NOFOLLOW
    return os.open(entry.path, flags, 0o600, dir_fd=entry.fd)


@contextmanager
def _entry(folder: Path, parts: tuple[str, ...]) -> Iterator[FolderEntry]:
    try:
        with Root(folder).entry(parts) as entry:
            yield entry
    except Outside as exc:
        raise Invalid(f"Only files in the folder {folder.name!r} are possible.", field="name") from exc


def delete_expired(folder: Path) -> None:
    """Delete files that were not written or read for an hour. A folder that is missing has none."""
    too_old = time.time() - MAX_AGE_S
    for path, status in _files(folder):
        if status.st_mtime < too_old:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        with suppress(OSError):  # gone by now
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, status
