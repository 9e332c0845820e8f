"""Which files may be imported and exported: those in the folders a setting allows."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.rooted_folder import FolderEntry, Outside, Root
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.system import operating_system

CHUNK_BYTES = 1024 * 1024


def copy_in(folders: Sequence[Path], source: str, target: Path, max_bytes: int) -> None:
    """Copy an allowed file to where the engine may read it. Raises NotFound, and Invalid for one that is too large."""
    with (
        _translate_errors("source", folders),
        _open_file(folders, source) as (reading, found),
        target.open("wb") as writing,
    ):
        copied, is_small = 0, found.st_size <= max_bytes
        while is_small and (chunk := reading.read(CHUNK_BYTES)):
            writing.write(chunk)
            copied += len(chunk)
            is_small = copied <= max_bytes  # it may grow meanwhile
        if not is_small:
            raise Invalid(f"source: the file is over {max_bytes} bytes. Split it.", code="too_large", field="source")


def move_out(folders: Sequence[Path], made: Path, destination: str) -> str:
    """Move a finished file to its destination. Returns the path as the caller gave it: answers never show where our
    folders are. Raises Conflict if the file exists: a caller who may only read overwrites nothing."""
    if "://" in destination or destination.startswith("~"):
        raise Invalid(
            f"destination: only files in {_listed(folders)} are possible: no address, and no '~'.", field="destination"
        )
    make_private_folder(folders[0])
    with _translate_errors("destination", folders), _new_entry(folders, destination) as entry:
        _check_free(entry)
        with made.open("rb") as reading:
            made.chmod(0o600)
            os.fsync(reading.fileno())
        try:
            os.replace(made, entry.path, dst_dir_fd=entry.fd)
        except OSError as exc:
            if exc.errno != errno.EXDEV:
                raise
            _copy_over(made, entry)
        entry.sync_folder()
        return str(PurePath(destination))


def is_in(folder: Path, path: str) -> bool:
    """Whether a path, as a caller gives it, means a file in the first of the folders they may use."""
    return not PurePath(path).is_absolute() or PurePath(path).is_relative_to(folder)


def _check_free(entry: FolderEntry) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(entry.status().st_mode):
            raise Invalid("destination: this is a folder. Name a file in it.", field="destination")
        raise Conflict(f"destination: there is {entry.name!r} already. Choose another name.", field="destination")


def _copy_over(made: Path, entry: FolderEntry) -> None:
    """Copy to another disk: under a temporary name first, so that no process sees half of the file."""
    part = entry.sibling(f".{secrets.token_hex(6)}{atomic_write.UNFINISHED}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | operating_system.O_BINARY
    fd = os.open(part.path, flags, 0o600, dir_fd=part.fd)
    try:
        with made.open("rb") as reading, os.fdopen(fd, "wb") as writing:
            shutil.copyfileobj(reading, writing, CHUNK_BYTES)
            writing.flush()
            os.fsync(fd)
        part.rename(entry)
    except BaseException:
        part.remove()
        raise


@contextmanager
def _open_file(folders: Sequence[Path], path: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """The file of a path, in the first folder that has it; an absolute path must lie in one of them."""
    candidates = _candidates(folders, path, "source")
    failed: OSError | None = None
    for folder, parts in candidates:
        with ExitStack() as opened:
            try:
                entry = opened.enter_context(Root(folder).entry(parts))
                file = opened.enter_context(entry.opened())
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError, Outside) as exc:
                failed = failed or exc
                continue
            yield file
            return
    raise failed or FileNotFoundError(path)


@contextmanager
def _new_entry(folders: Sequence[Path], path: str) -> Iterator[FolderEntry]:
    """Where a new file goes: a relative path lies in the first folder, an absolute one must lie in one of them. Missing
    folders are created."""
    folder, parts = _candidates(folders, path, "destination")[0]
    with Root(folder).folder(parts[:-1], make=True, mode=0o700):
        pass
    with Root(folder).entry(parts, make=True) as entry:
        yield entry


def _candidates(folders: Sequence[Path], path: str, field: str) -> list[tuple[Path, tuple[str, ...]]]:
    """The folders that a path may lie in, each with the path's parts below it. Raises Invalid if there are none."""
    pure = PurePath(path)
    candidates = [(folder, pure.parts) for folder in folders]
    if pure.is_absolute():
        candidates = [(folder, pure.relative_to(folder).parts) for folder in folders if pure.is_relative_to(folder)]
    if not candidates or "\0" in path or any(not parts or ".." in parts for _, parts in candidates):
        raise Invalid(f"{field}: only files in {_listed(folders)} are possible. Give a path in there.", field=field)
    return candidates


@contextmanager
def _translate_errors(field: str, folders: Sequence[Path]) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
        raise NotFound(f"{field}: there is no such file in {_listed(folders)}.", field=field) from exc
    except Outside as exc:
        raise Invalid(f"{field}: only files in {_listed(folders)} are possible.", field=field) from exc
    except OSError as exc:
        if exc.errno != errno.ENAMETOOLONG:
            raise
        raise Invalid(f"{field}: this name is longer than a file's can be. Choose a shorter one.", field=field) from exc


def _listed(folders: Sequence[Path]) -> str:
    """By their names: answers never show their paths."""
    return " or ".join(f"the folder {folder.name!r}" for folder in folders)
