"""A folder that no path can leave: not by `..`, nor by a symlink, not even one that is created meanwhile.

Each step goes from an open folder to the next and never follows a symlink unchecked; one that stays inside is resolved
here. Windows cannot open relative to a folder: there each folder is resolved and checked before use.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from memory_mcp.system.operating_system import O_BINARY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK

HAS_DIR_FD = os.open in os.supports_dir_fd
MAX_SYMLINKS = 40  # followed on one path
_FOLDER = os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW
_FILE = os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_BINARY  # nonblocking: a pipe is opened, too


class Outside(OSError):
    """The path leads out of the folder."""


@dataclass(frozen=True)
class FolderEntry:
    """An open folder, and a name in it."""

    fd: int | None  # None where the system cannot open relative to a folder
    folder: Path
    name: str

    @property
    def path(self) -> str | Path:
        return self.name if self.fd is not None else self.folder / self.name

    @property
    def folder_fd_or_path(self) -> int | Path:
        """The folder, for functions of `os` that take a descriptor or a path."""
        return self.fd if self.fd is not None else self.folder

    def sibling(self, name: str) -> "FolderEntry":
        return FolderEntry(self.fd, self.folder, name)

    @contextmanager
    def child(self, name: str) -> Iterator["FolderEntry"]:
        """A folder in this one. Raises NotADirectoryError for a symlink."""
        if self.fd is None:
            if (self.folder / name).resolve() != self.folder / name:  # a symlink, or a junction of Windows
                raise NotADirectoryError(name)
            yield FolderEntry(None, self.folder / name, "")
            return
        fd = _open_folder(name, self.fd)
        try:
            yield FolderEntry(fd, self.folder / name, "")
        finally:
            os.close(fd)

    def status(self) -> os.stat_result:
        """Of the entry itself, also if it is a symlink."""
        return os.stat(self.path, dir_fd=self.fd, follow_symlinks=False)

    def file_status(self) -> os.stat_result:
        """The same. Raises FileNotFoundError for anything but a regular file."""
        found = self.status()
        if not stat.S_ISREG(found.st_mode):
            raise _no_file(self.name)
        return found

    def is_relative_link(self) -> bool:
        """Whether it is a symlink that leads elsewhere once it lies in another folder."""
        link = _link(self.path, self.fd)
        return link is not None and not os.path.isabs(link)

    @contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        """A regular file, open for reading, and its status."""
        fd = os.open(self.path, _FILE, dir_fd=self.fd)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):  # before `open`, which refuses a folder's descriptor and leaves it open
                raise _no_file(self.name)
            with open(fd, "rb", closefd=False) as file:
                yield file, found
        finally:
            os.close(fd)

    def read(self, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """Up to `max_bytes` bytes of a regular file, and its status when they were read."""
        with self.opened() as (file, found):
            # A buffer of `max_bytes` bytes is made only for a file that needs one.
            return file.read() if found.st_size < max_bytes else file.read(max_bytes), found

    def mode_of_new(self, usual: int) -> int:
        """The mode of a new file: for its owner alone if the folder is."""
        found = os.stat(self.folder_fd_or_path)
        return usual if found.st_mode & 0o077 else usual & 0o700

    def remove(self) -> None:
        os.unlink(self.path, dir_fd=self.fd)

    def rename(self, target: "FolderEntry") -> None:
        os.replace(self.path, target.path, src_dir_fd=self.fd, dst_dir_fd=target.fd)

    def sync_folder(self) -> None:
        """Make a created or removed name survive a power cut."""
        if self.fd is not None:
            os.fsync(self.fd)


class Root:
    """A folder whose contents are reached by their parts, and never anything else.

    `is_closed` says which folders below must not be entered, directly or through a symlink.
    """

    def __init__(self, path: Path, is_closed: Callable[[FolderEntry], bool] = lambda folder: False) -> None:
        self.path = path
        self._is_closed = is_closed

    @contextmanager
    def folder(self, parts: Sequence[str], *, make: bool = False, mode: int = 0o777) -> Iterator[FolderEntry]:
        """The open folder at a path, as an entry without a name. With `make`, missing folders are created.

        Raises FileNotFoundError or NotADirectoryError, and Outside if the path leads out.
        """
        making = mode if make else None
        with ExitStack() as opened:
            yield self._checked(parts, making) if not HAS_DIR_FD else self._walk(parts, making, opened)

    @contextmanager
    def entry(self, parts: Sequence[str], *, make: bool = False) -> Iterator[FolderEntry]:
        """The entry at a path, which may not exist yet. A symlink there that stays inside is followed."""
        if not HAS_DIR_FD:
            real = self._resolved(self._checked(parts[:-1], 0o777 if make else None).folder / parts[-1])
            yield FolderEntry(None, real.parent, real.name)
            return
        for _ in range(MAX_SYMLINKS):
            if not parts or parts[-1] == "..":  # where a symlink to a folder led
                raise _no_file("..")
            with self.folder(parts[:-1], make=make) as folder:
                target = folder.sibling(parts[-1])
                led = self._link_target(parts[:-1], target)
                if led is None:
                    yield target
                    return
                parts = led
        raise OSError(errno.ELOOP, "too many symlinks", parts[-1])

    def _link_target(self, folder: Sequence[str], target: FolderEntry) -> Sequence[str] | None:
        """The path that a symlink leads to; None if the entry is not a symlink."""
        link = _link(target.path, target.fd)
        if link is None:
            return None
        from_top, led = self._target_parts(link)
        return [*([] if from_top else folder), *led]

    def _walk(self, parts: Sequence[str], making: int | None, opened: ExitStack) -> FolderEntry:
        stack = [_open_folder(self.path, None)]
        opened.callback(_close, stack)
        way: list[str] = []
        ahead, links = deque(parts), 0
        while ahead:
            part = ahead.popleft()
            if part == "..":  # of a symlink's target: back to the folder we came from
                if not way:
                    raise _outside()
                way.pop()
                os.close(stack.pop())
                continue
            try:
                fd = _open_folder(part, stack[-1])
            except FileNotFoundError:
                if making is None:
                    raise
                _make_folder(FolderEntry(stack[-1], self.path.joinpath(*way), part), making)
                fd = _open_folder(part, stack[-1])
            except OSError:
                links += 1
                link = _link(part, stack[-1])
                if link is None or links > MAX_SYMLINKS:
                    raise
                from_top, led = self._target_parts(link)
                if from_top:
                    _close(stack, keep=1)
                    way = []
                ahead.extendleft(reversed(led))
                continue
            stack.append(fd)
            way.append(part)
            if self._is_closed(FolderEntry(fd, self.path.joinpath(*way), "")):
                raise _outside()
        return FolderEntry(stack[-1], self.path.joinpath(*way), "")

    def _target_parts(self, link: str) -> tuple[bool, Sequence[str]]:
        """Whether the target of a symlink begins at the top of this folder, and its parts, which may contain `..`."""
        target = PurePosixPath(link)
        if not target.is_absolute():
            return False, target.parts
        for top in (self.path, self.path.resolve()):
            if target.is_relative_to(top.as_posix()):
                return True, target.relative_to(top.as_posix()).parts
        raise _outside()

    def _checked(self, parts: Sequence[str], making: int | None) -> FolderEntry:
        real = self._resolved(self.path.joinpath(*parts))
        if making is not None:
            real.mkdir(making, parents=True, exist_ok=True)
        if not real.is_dir():
            kind = NotADirectoryError if real.exists() else FileNotFoundError
            raise kind(errno.ENOENT, "no such folder", real.name)
        top = self.path.resolve()
        entered = [folder for folder in (real, *real.parents) if folder.is_relative_to(top) and folder != top]
        if any(self._is_closed(FolderEntry(None, folder, "")) for folder in entered):
            raise _outside()
        return FolderEntry(None, real, "")

    def _resolved(self, path: Path) -> Path:
        try:
            real = path.resolve()
        except RuntimeError as exc:  # a loop
            raise OSError(errno.ELOOP, "too many symlinks", path.name) from exc
        if not real.is_relative_to(self.path.resolve()):
            raise _outside()
        return real


def _outside() -> Outside:
    return Outside(errno.EXDEV, "the path leads out of the folder, or into one that is closed")


def _no_file(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "not a regular file", name)


def _open_folder(path: str | Path, fd: int | None) -> int:
    # The path of the top folder may contain symlinks: the user chose it.
    return os.open(path, _FOLDER if fd is not None else _FOLDER & ~O_NOFOLLOW, dir_fd=fd)


def _close(stack: list[int], keep: int = 0) -> None:
    while len(stack) > keep:
        os.close(stack.pop())


def _make_folder(entry: FolderEntry, mode: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(entry.path, entry.mode_of_new(mode), dir_fd=entry.fd)
        entry.sync_folder()


def _link(path: str | Path, fd: int | None) -> str | None:
    try:
        return os.fspath(os.readlink(path, dir_fd=fd))
    except OSError:
        return None
