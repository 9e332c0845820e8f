"""Several tables in one zip: a file for each, called as its table is.

These functions are called in a worker process (workers/), so they take and give JSON values, and paths as texts.
"""

import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from memory_mcp.errors import Invalid
from memory_mcp.files.compressed import BoundedZip
from memory_mcp.portals.address import TABLE

MAX_FILES = 1000  # of a zip that is imported
MAX_NAME_SHOWN = 100  # characters, in an error
ENDINGS = {"json": (".json", ".jsonl", ".ndjson"), "csv": (".csv",), "parquet": (".parquet",)}
PACKED_ALREADY = ".parquet"  # what the names of files end with that deflate makes no smaller
CHUNK_BYTES = 1024 * 1024


def add(path: Path | str, file: Path | str, name: str) -> None:
    """Add a file to a zip, which is made if it is missing."""
    method = zipfile.ZIP_STORED if name.endswith(PACKED_ALREADY) else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(file, name, compress_type=method)


def list_tables(path: str, format_: str, max_file_bytes: int) -> dict[str, str]:
    """The files of a foreign zip by the tables they are called as. Raises Invalid for one that holds anything else, or
    too much."""
    with _opened(path) as archive:
        entries = [entry for entry in archive.infolist() if not _is_aside(entry)]
    if len(entries) > MAX_FILES or any(entry.file_size > max_file_bytes for entry in entries):
        raise Invalid(
            f"source: the zip has more than {MAX_FILES} files, or one of over {max_file_bytes} bytes. Split it.",
            word="too_large",
            field="source",
        )
    tables: dict[str, str] = {}
    for entry in entries:
        name = PurePosixPath(entry.filename)
        shown = repr(entry.filename[:MAX_NAME_SHOWN])
        if name.suffix.lower() not in ENDINGS[format_]:
            raise Invalid(f"source: {shown} in the zip is not called as a {format_} file is.", field="source")
        if not TABLE.fullmatch(name.stem) or name.stem.startswith("_"):
            raise Invalid(f"source: no table can be called as {shown} in the zip is. Rename the file.", field="source")
        if name.stem in tables:
            raise Invalid(f"source: the zip has two files for the table {name.stem!r}.", field="source")
        tables[name.stem] = entry.filename
    if not tables:
        raise Invalid(f"source: there is no {format_} file in the zip.", field="source")
    return tables


def extract(path: str, name: str, target: str) -> None:
    """Unpack one file. It has no more bytes than list_tables was told."""
    with _opened(path) as archive, archive.open(name) as reading, Path(target).open("wb") as writing:
        shutil.copyfileobj(reading, writing, CHUNK_BYTES)


def _is_aside(entry: zipfile.ZipInfo) -> bool:
    """Whether it is a folder, or what a system notes beside files."""
    parts: Sequence[str] = PurePosixPath(entry.filename).parts
    return entry.is_dir() or "__MACOSX" in parts or parts[-1:] == (".DS_Store",)


@contextmanager
def _opened(path: str) -> Iterator[BoundedZip]:
    try:
        with BoundedZip(Path(path)) as archive:
            yield archive
    except Invalid as exc:
        if "field" in exc.data:
            raise
        raise Invalid(
            "source: this zip unpacks to too much, or is not packed with deflate. Import its files one by one.",
            word=exc.error,
            field="source",
        ) from exc
    except (
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        NotImplementedError,
        EOFError,
        UnicodeError,
        ValueError,
    ) as exc:
        raise Invalid("source: this is not a zip, not all of it is there, or it is encrypted.", field="source") from exc
