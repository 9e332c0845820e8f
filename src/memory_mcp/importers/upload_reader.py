"""Uploaded files, which are read in a child process with limits: the server itself never parses a foreign file."""

import calendar
import errno
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from zipfile import ZipInfo

from memory_mcp.engines.files.compressed import MAX_EXPANSION, BoundedZip
from memory_mcp.engines.files.staging import staging, translate_write_errors
from memory_mcp.engines.isolation.worker_process import ProcessLimits, WorkerProcess
from memory_mcp.errors import Invalid, LimitExceeded
from memory_mcp.importers import archives, found_items, readers
from memory_mcp.importers.markdown_folder import SUFFIXES
from memory_mcp.importers.model import OWN_FORMAT, ForeignFormat, ImportFormat

MAX_MEMORY_BYTES = 2 * 1024**3  # of address space: the libraries alone take up a part of it
MAX_PATH_PARTS = 40
MAX_ENTRIES = 100_000  # files and folders of a zip
FOUND = "found.jsonl"
UNPACKED = "unpacked"
ABOUT, README = "export.json", "README.md"  # of an export of Memory MCP


@dataclass(frozen=True)
class ReadLimits:
    """For one upload."""

    file_bytes: int
    seconds: int


@dataclass(frozen=True)
class ReadUpload:
    """What a child process has read of a file."""

    format: ImportFormat
    found: Path  # lines of found_items, or the folder of an export of Memory MCP
    count: int


@contextmanager
def read_upload(
    file: Path, name: str, format_: ImportFormat | None, limits: ReadLimits, folder: Path, cancelled: threading.Event
) -> Iterator[ReadUpload]:
    """Read a file in a child process; without a format, the first that fits. `name` is the file's name for people.

    `folder` is where temporary files may be. Raises Invalid for a file of no known format, or one that holds too much.
    """
    with translate_write_errors(folder), staging(folder) as work:
        allowed = ProcessLimits(limits.seconds, MAX_MEMORY_BYTES, limits.file_bytes)
        with WorkerProcess(
            allowed, readable=[file], writable=[work], site_packages=True, cancelled=cancelled
        ) as worker:
            try:
                read_format, count = worker.call(read_file, str(file), name, format_, str(work), limits.file_bytes)
            except LimitExceeded as exc:
                raise _too_much(exc, limits) from exc
        found = _top(work / UNPACKED) if read_format == OWN_FORMAT else work / FOUND
        yield ReadUpload(cast(ImportFormat, read_format), found, count)


def _too_much(exc: LimitExceeded, limits: ReadLimits) -> Invalid:
    if exc.limit == "time":
        return Invalid(f"Reading the file took more than {limits.seconds} s. Split it.", code="timeout")
    return Invalid(
        f"The file holds too much: it may unpack to {MAX_EXPANSION} times its size, a folder to "
        f"{limits.file_bytes:,} bytes. Split it.",
        code="too_large",
    )


def read_file(
    file: str, name: str, format_: ImportFormat | None, work: str, max_bytes: int
) -> tuple[ImportFormat, int]:
    """In the child process: write what the file holds to FOUND in the folder `work`. A folder may unpack to
    `max_bytes`; an export of Memory MCP is only unpacked."""
    path, folder = Path(file), Path(work)
    try:
        if format_ == OWN_FORMAT or (format_ is None and _is_own_export(path)):
            _unpack(path, folder / UNPACKED, max_bytes)
            return OWN_FORMAT, 0
        source, chosen = _source(path, format_, folder / UNPACKED, max_bytes)
        found = readers.READERS[chosen](source, archives.ignore_bytes)
        return chosen, found_items.write(folder / FOUND, found)
    except Invalid as exc:
        message = exc.message.replace(str(folder / UNPACKED), name).replace(file, name)
        raise Invalid(message, code=exc.code, hint=exc.hint, **exc.data) from exc


def _source(path: Path, format_: ForeignFormat | None, target: Path, max_bytes: int) -> tuple[Path, ForeignFormat]:
    """The file, or the folder that it is a zip of, and the format."""
    if format_ in readers.OF_FOLDERS:
        return _unpack(path, target, max_bytes), format_
    if format_:
        return path, format_
    if not _is_folder_of_markdown(path):
        return path, readers.detect(path)
    folder = _unpack(path, target, max_bytes)
    return folder, readers.detect(folder)


def _is_own_export(path: Path) -> bool:
    """A zip of what `memory-mcp export` writes, or of the folder around it."""
    if not archives.is_zip(path):
        return False
    with archives.open_export(path) as members:
        names = {one.name for one in members}
    return any(name.split("/")[-1] == ABOUT and name.count("/") < 2 for name in names) and any(
        name.split("/")[-1] == README for name in names
    )


def _is_folder_of_markdown(path: Path) -> bool:
    """A zip with markdown and no JSON, which the exports of other programs consist of."""
    with archives.open_export(path) as members:
        names = [one.name.lower() for one in members if _parts(one.name)]
    is_export = any(name.endswith((".json", ".jsonl", ".jsonl.gz", ".zip")) for name in names)
    return archives.is_zip(path) and not is_export and any(name.endswith(SUFFIXES) for name in names)


def _unpack(path: Path, target: Path, max_bytes: int) -> Path:
    """Unpack a zip of a folder, all of it to `max_bytes` at most. Returns the only folder in it, or else `target`."""
    if not archives.is_zip(path):
        raise Invalid(f"{path} is not a folder, nor a zip of one.")
    target.mkdir(exist_ok=True)
    try:
        with BoundedZip(path) as packed:
            files = {parts: info for info in packed.infolist() if (parts := _parts(info.filename)) and _is_plain(info)}
            _check_size(files, max_bytes)
            for parts, info in files.items():
                file = target.joinpath(*parts)
                file.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(info) as reading, file.open("wb") as writing:
                    while chunk := reading.read(1 << 20):
                        writing.write(chunk)
                _set_time(file, info.date_time)
    except archives.DAMAGE as exc:
        if isinstance(exc, OSError) and exc.errno == errno.EFBIG:  # the limit of this process
            raise
        raise Invalid(f"{path} cannot be unpacked: it is damaged, locked, or has names that cannot be files.") from exc
    return _top(target)


def _top(target: Path) -> Path:
    """The only folder in a folder, or else the folder itself."""
    inside = [one for one in target.iterdir() if not one.name.startswith((".", "__MACOSX"))]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _is_plain(info: ZipInfo) -> bool:
    return not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16)


def _check_size(files: Mapping[tuple[str, ...], ZipInfo], max_bytes: int) -> None:
    """Raises Invalid for a zip that would take up too much of the disk. Each file and folder does, however small."""
    if sum(info.file_size for info in files.values()) > max_bytes:
        raise Invalid(f"This zip unpacks to more than {max_bytes:,} bytes. Split it.", code="too_large")
    entries: set[tuple[str, ...]] = set()
    for parts in files:
        entries.update(parts[:level] for level in range(1, len(parts) + 1))
        if len(entries) > MAX_ENTRIES:
            raise Invalid(f"This zip has over {MAX_ENTRIES:,} files and folders. Split it.", code="too_large")


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a path in a zip; none for a file that is hidden or would lie outside."""
    parts = tuple(name.replace("\\", "/").split("/"))
    is_inside = all(part and not part.startswith(".") and part != "__MACOSX" and "\0" not in part for part in parts)
    return parts if is_inside and len(parts) <= MAX_PATH_PARTS else ()


def _set_time(file: Path, packed_at: tuple[int, int, int, int, int, int]) -> None:
    seconds = calendar.timegm((*packed_at, 0, 0, 0))
    if 0 < seconds < time.time():
        os.utime(file, (seconds, seconds))
