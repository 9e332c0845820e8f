"""Whole-file writes: a reader, another process or a crash sees the old file or the new one, never a part."""

import errno
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from memory_mcp.engines.files.rename import exchange, rename_to_new
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.system import operating_system

UNFINISHED = ".memory-mcp-part"  # suffix of the name of a file that is not complete yet
NEW_FILE_MODE = 0o666  # less the umask
ABANDONED_AFTER_S = 600.0  # by then the writer of an unfinished file has stopped
# Errors of a file system that has no hard links.
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK}


def write(target: FolderEntry, data: bytes, *, durable: bool = True, mode: int = NEW_FILE_MODE) -> None:
    """Write a file, in place of one that may exist. `mode` is for a file that is new."""
    part = _write_part(target, data, durable, mode)
    try:
        part.rename(target)
    except BaseException:
        _delete(part)
        raise
    if durable:
        target.sync_folder()


def replace(
    target: FolderEntry, data: bytes, is_seen: Callable[[os.stat_result], bool], *, durable: bool = True
) -> bool:
    """Replace a file that was read before. False, and nothing is changed, if another program has changed it since.

    The two files are exchanged first and the old one is checked afterwards, so a save at the last moment is noticed.
    Where the system cannot exchange files, the check comes just before the rename.
    """
    part = _write_part(target, data, durable)
    try:
        if exchange(part, target):
            is_done = is_seen(part.status()) or _restore(part, target)
        elif is_done := is_seen(target.status()):
            part.rename(target)
    finally:
        _delete(part)
    if durable:
        target.sync_folder()
    return is_done


def _restore(part: FolderEntry, target: FolderEntry) -> bool:
    """Put the file of another program back, or the one that it saves meanwhile. Always False: our file is deleted."""
    leaving = target.status()
    while True:
        coming = part.status()
        exchange(part, target)
        if os.path.samestat(part.status(), leaving):
            return False
        leaving = coming  # another save came in between: put that one back, and remove ours or the older one


def write_new(
    target: FolderEntry, data: bytes, *, durable: bool = True, mode: int = NEW_FILE_MODE, changed_ns: int | None = None
) -> None:
    """Create a file, with `changed_ns` as its time of change if given. Raises FileExistsError if one exists, even if it
    was made a moment ago."""
    part = _write_part(target, data, durable, mode)
    try:
        if changed_ns is not None:
            os.utime(part.path, ns=(changed_ns, changed_ns), dir_fd=part.fd)
        _rename_to_new(part, target)
    finally:
        _delete(part)
    if durable:
        target.sync_folder()


def sync(path: Path) -> None:
    """Make a file, or a change of names in a folder, survive a power cut."""
    if operating_system.THIS.can_sync_folders:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_unfinished(folder: FolderEntry, now: float) -> None:
    """Remove unfinished files of crashed writers. A recent one is kept: its writer may still run, with the
    lock of another folder."""
    for name in os.listdir(folder.folder_fd_or_path):
        if name.startswith(".") and name.endswith(UNFINISHED):
            with suppress(OSError):  # it is removed by now
                part = folder.sibling(name)
                found = part.status()
                if max(found.st_mtime, found.st_ctime) < now - ABANDONED_AFTER_S:
                    part.remove()


def _write_part(target: FolderEntry, data: bytes, durable: bool, mode: int = NEW_FILE_MODE) -> FolderEntry:
    part = target.sibling(f".{secrets.token_hex(6)}{UNFINISHED}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | operating_system.O_BINARY
    fd = os.open(part.path, flags, target.mode_of_new(mode), dir_fd=part.fd)
    try:
        with open(fd, "wb") as file:
            _keep_permissions(target, fd)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(fd)
    except BaseException:
        _delete(part)
        raise
    return part


def _keep_permissions(target: FolderEntry, fd: int) -> None:
    """Those of the file that is replaced, if there is one."""
    with suppress(FileNotFoundError, AttributeError):  # Windows has no fchmod
        os.fchmod(fd, target.status().st_mode & 0o777)


def _rename_to_new(part: FolderEntry, target: FolderEntry) -> None:
    if rename_to_new(part, target) or _link(part, target):
        return
    with suppress(FileNotFoundError):  # the last resort: check, then rename
        target.status()
        raise FileExistsError(target.name)
    part.rename(target)


def _link(part: FolderEntry, target: FolderEntry) -> bool:
    """False, and nothing is done, without hard links. Raises FileExistsError if the name is taken."""
    try:
        os.link(part.path, target.path, src_dir_fd=part.fd, dst_dir_fd=target.fd)
    except NotImplementedError:
        return False
    except OSError as exc:
        if exc.errno in _NO_LINKS:
            return False
        raise
    return True


def _delete(part: FolderEntry) -> None:
    with suppress(OSError):
        part.remove()
