"""An export in one file: a zip of its folder."""

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
from memory_mcp.progress import ReportProgress, report_nothing

OLDEST = (1980, 1, 1, 0, 0, 0)  # that a zip can say
PACKED = {".db", ".parquet"}  # compressed as they are
MIN_FREE_BYTES = 50_000_000  # left on the disk
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def pack(folder: Path, target: Path, report_progress: ReportProgress = report_nothing) -> None:
    """Every file of a folder, under its path below it. Times are in UTC."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        for number, path in enumerate(files):
            report_progress("packing", number, len(files))
            part = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _time(path))
            part.external_attr = 0o600 << 16
            part.compress_type = zipfile.ZIP_STORED if path.suffix in PACKED else zipfile.ZIP_DEFLATED
            with path.open("rb") as reading, archive.open(part, "w", force_zip64=True) as writing:
                while chunk := reading.read(1 << 20):
                    writing.write(chunk)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of an export: the path, or what a zip of one holds, for the block. Raises Invalid for other files."""
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="memory-mcp-") as scratch:
        _unpack(path, Path(scratch))
        yield _top(Path(scratch))


def _unpack(path: Path, folder: Path) -> None:
    """Names that lead out of the folder lose what leads out, as zipfile sees to it."""
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
            "unpacked. Make room and try again; nothing was changed."
        )


def _seconds(said: tuple[int, int, int, int, int, int]) -> int:
    """Since 1970. Some who pack say no day at all, which a zip can only say as 1980-00-00."""
    try:
        return calendar.timegm((*said, 0, 0, 0))
    except ValueError:
        return calendar.timegm((*OLDEST, 0, 0, 0))


def _top(folder: Path) -> Path:
    """Programs that pack a folder again often pack the folder itself."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and (inside[0] / ABOUT).is_file() else folder


def _time(path: Path) -> tuple[int, int, int, int, int, int]:
    year, *rest = time.gmtime(path.stat().st_mtime)[:6]
    return OLDEST if year < OLDEST[0] else (min(year, 2107), rest[0], rest[1], rest[2], rest[3], rest[4])
