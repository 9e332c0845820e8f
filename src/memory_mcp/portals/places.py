"""Which files may be imported and exported: those in the folders a setting allows."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.files import whole
from memory_mcp.files.beneath import Outside, Place, Root

AT_ONCE = 1024 * 1024  # bytes copied at once


def copy_in(folders: Sequence[Path], source: str, target: Path, most: int) -> None:
    """Copy an allowed file to where the engine may read it. Raises NotFound, and Invalid for one that is too large."""
    with (
        _telling("source", folders),
        _place(folders, source, "source") as place,
        place.opened() as (reading, found),
        target.open("wb") as writing,
    ):
        copied, is_small = 0, found.st_size <= most
        while is_small and (chunk := reading.read(AT_ONCE)):
            writing.write(chunk)
            copied += len(chunk)
            is_small = copied <= most  # it may grow meanwhile
        if not is_small:
            raise Invalid(f"source: the file is over {most} bytes. Split it.", word="too_large", field="source")


def move_out(folders: Sequence[Path], made: Path, destination: str) -> str:
    """Move a finished file to where it is wanted. The path it has there, as the caller put it: where our folders lie is
    nobody's business. Raises Conflict if a file is there already:
    who may only read overwrites nothing."""
    if "://" in destination or destination.startswith("~"):
        raise Invalid(
            f"destination: only files in {_listed(folders)} are possible: no address, and no '~'.", field="destination"
        )
    folders[0].mkdir(mode=0o700, parents=True, exist_ok=True)
    with _telling("destination", folders), _place(folders, destination, "destination", make=True) as place:
        _check_free(place)
        with made.open("rb") as reading:
            made.chmod(0o600)
            os.fsync(reading.fileno())
        try:
            os.replace(made, place.path, dst_dir_fd=place.fd)
        except OSError as exc:
            if exc.errno != errno.EXDEV:
                raise
            _copy_over(made, place)
        place.sync_folder()
        return str(PurePath(destination))


def is_in(folder: Path, path: str) -> bool:
    """Whether a path, as a caller gives it, means a file in the first of the folders they may use."""
    return not PurePath(path).is_absolute() or PurePath(path).is_relative_to(folder)


def _check_free(place: Place) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(place.status().st_mode):
            raise Invalid("destination: this is a folder. Name a file in it.", field="destination")
        raise Conflict(f"destination: there is {place.name!r} already. Choose another name.", field="destination")


def _copy_over(made: Path, place: Place) -> None:
    """To another disk: beside the place first, so that nobody sees half of it."""
    part = place.beside(f".{secrets.token_hex(6)}{whole.UNFINISHED}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(part.path, flags, 0o600, dir_fd=part.fd)
    try:
        with made.open("rb") as reading, os.fdopen(fd, "wb") as writing:
            shutil.copyfileobj(reading, writing, AT_ONCE)
            writing.flush()
            os.fsync(fd)
        part.rename(place)
    except BaseException:
        part.remove()
        raise


@contextmanager
def _place(folders: Sequence[Path], path: str, field: str, *, make: bool = False) -> Iterator[Place]:
    """A relative path is looked up in the first folder; an absolute one must lie in one of them."""
    for folder in folders:
        pure = PurePath(path)
        if not pure.is_absolute():
            parts = pure.parts
        elif pure.is_relative_to(folder):
            parts = pure.relative_to(folder).parts
        else:
            continue
        if not parts or ".." in parts or "\0" in path:
            break
        if make:
            with Root(folder).folder(parts[:-1], make=True, mode=0o700):
                pass
        with Root(folder).place(parts, make=make) as place:
            yield place
            return
    raise Invalid(f"{field}: only files in {_listed(folders)} are possible. Give a path in there.", field=field)


@contextmanager
def _telling(field: str, folders: Sequence[Path]) -> Iterator[None]:
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
    """By their names: where they lie is nobody's business but the person's who set them."""
    return " or ".join(f"the folder {folder.name!r}" for folder in folders)
