"""A downloaded export: a zip, the folder it was unpacked to, or one of its files."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from memory_mcp.engines.files.compressed import BoundedZip, OnBytes, count_reads
from memory_mcp.errors import Invalid

MAX_NESTED_ZIPS = 2  # zips in zips
DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)


def ignore_bytes(count: int) -> None:
    """For a reader whose progress is not shown."""


@dataclass(frozen=True)
class Member:
    """A file of an export."""

    name: str  # with '/' between its parts
    open: Callable[[], IO[bytes]]

    @property
    def base(self) -> str:
        return self.name.rsplit("/", 1)[-1]


@contextmanager
def open_export(
    path: Path, on_bytes: OnBytes = ignore_bytes, nested: Callable[[str], bool] = lambda name: False
) -> Iterator[list[Member]]:
    """The files of an export, sorted by name, with those of the zips inside for whose names `nested` is true.

    Raises Invalid if a file cannot be read.
    """
    zips: list[BoundedZip] = []
    try:
        yield sorted(_members(path, on_bytes, nested, zips), key=lambda member: member.name)
    except DAMAGE as exc:
        raise Invalid(f"{path} cannot be read: {_why(exc)}.") from exc
    finally:
        for one in reversed(zips):
            one.close()


def is_zip(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def _members(path: Path, on_bytes: OnBytes, nested: Callable[[str], bool], zips: list[BoundedZip]) -> Iterator[Member]:
    if path.is_dir():
        for file in path.rglob("*"):
            if file.is_file() and not file.is_symlink():
                name = file.relative_to(path).as_posix()
                if nested(file.name) and zipfile.is_zipfile(file):
                    yield from _zipped(BoundedZip(_open(file, on_bytes)), nested, zips, 1)
                else:
                    yield Member(name, partial(_open, file, on_bytes))
    elif not path.exists():
        raise Invalid(f"There is nothing at {path}. Check the spelling.")
    elif zipfile.is_zipfile(path):
        yield from _zipped(BoundedZip(_open(path, on_bytes)), nested, zips, 0)
    else:
        yield Member(path.name, partial(_open, path, on_bytes))


def _zipped(archive: BoundedZip, nested: Callable[[str], bool], zips: list[BoundedZip], depth: int) -> Iterator[Member]:
    zips.append(archive)
    for info in archive.infolist():
        if info.is_dir():
            continue
        if nested(info.filename.rsplit("/", 1)[-1]) and depth < MAX_NESTED_ZIPS:
            yield from _zipped(BoundedZip(archive.open(info), archive.budget), nested, zips, depth + 1)
        else:
            yield Member(info.filename, _unzipper(archive, info))


def _open(file: Path, on_bytes: OnBytes) -> IO[bytes]:
    return count_reads(file.open("rb"), on_bytes)


def _unzipper(archive: BoundedZip, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(info)


def _why(exc: BaseException) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or "the zip is damaged, locked or of an unknown kind"
