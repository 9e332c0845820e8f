"""Zip files of exports."""

import calendar
import os
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_mcp.engines.files.compressed import BoundedZip
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.maintenance.exports import ABOUT
from memory_mcp.progress import ReportProgress, report_nothing, track

MIN_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can store
COMPRESSED_SUFFIXES = {".db", ".parquet"}  # already compressed
MIN_FREE_BYTES = 50_000_000  # on the disk after unpacking
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def pack(folder: Path, target: Path, report_progress: ReportProgress = report_nothing) -> None:
    """Add every file of a folder, by its relative path. Times are in UTC."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        for path in track(files, "packing", len(files), report_progress):
            part = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _time(path))
            part.external_attr = 0o600 << 16
            part.compress_type = zipfile.ZIP_STORED if path.suffix in COMPRESSED_SUFFIXES else zipfile.ZIP_DEFLATED
            with path.open("rb") as reading, archive.open(part, "w", force_zip64=True) as writing:
                while chunk := reading.read(1 << 20):
                    writing.write(chunk)


@contextmanager
def unpack_export(path: Path) -> Iterator[Path]:
    """The folder of an export: the path itself, or a temporary folder with an unpacked zip. Raises Invalid."""
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="memory-mcp-") as scratch:
        _unpack(path, Path(scratch))
        yield _top(Path(scratch))


def _unpack(path: Path, folder: Path) -> None:
    """zipfile removes parts of names that lead out of the folder."""
    try:
        with BoundedZip(path) as archive:
            _check_space(archive, folder)
            for part in archive.infolist():
                made = archive.extract(part, folder)
                when = _seconds(part.date_time)
                os.utime(made, (when, when))
    except DAMAGE as exc:
        raise Invalid(
            f"{path} is neither a folder nor a whole zip that `memory-mcp export` or the web app made."
        ) from exc


def _check_space(archive: BoundedZip, folder: Path) -> None:
    needed, free = sum(part.file_size for part in archive.infolist()), shutil.disk_usage(folder).free
    if free < needed + MIN_FREE_BYTES:
        raise Unavailable(
            f"The disk has {free // 1_000_000} MB free, and this zip needs {(needed + MIN_FREE_BYTES) // 1_000_000} "
            "unpacked. Free some space and try again; nothing was changed."
        )


def _seconds(date: tuple[int, int, int, int, int, int]) -> int:
    """Seconds since 1970. Some programs write no date, which is 1980-00-00 in a zip."""
    try:
        return calendar.timegm((*date, 0, 0, 0))
    except ValueError:
        return calendar.timegm((*MIN_TIME, 0, 0, 0))


def _top(folder: Path) -> Path:
    """The folder with the export: other programs often pack the folder itself."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and (inside[0] / ABOUT).is_file() else folder


def _time(path: Path) -> tuple[int, int, int, int, int, int]:
    year, *rest = time.gmtime(path.stat().st_mtime)[:6]
    return MIN_TIME if year < MIN_TIME[0] else (min(year, 2107), rest[0], rest[1], rest[2], rest[3], rest[4])
