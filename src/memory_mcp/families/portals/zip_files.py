"""Several tables in one zip: a file for each, with the name of its table.

These functions are called in a worker process (engines/isolation): they take and return JSON values; paths are texts.
"""

import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from memory_mcp.engines.files.compressed import BoundedZip
from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.portals.address import TABLE

MAX_FILES = 1000  # of a zip that is imported
ENDINGS = {"json": (".json", ".jsonl", ".ndjson"), "csv": (".csv",), "parquet": (".parquet",)}
COMPRESSED_ENDING = ".parquet"  # of files that deflate makes no smaller
CHUNK_BYTES = 1024 * 1024


def add(path: Path | str, file: Path | str, name: str) -> None:
    """Add a file to a zip, which is created if it is missing."""
    method = zipfile.ZIP_STORED if name.endswith(COMPRESSED_ENDING) else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(file, name, compress_type=method)


def list_tables(path: str, format_: str, max_file_bytes: int) -> dict[str, str]:
    """The file of each table in a zip that anyone may have made. Raises Invalid for a zip that holds anything else, or
    too much."""
    with _open(path) as archive:
        entries = [entry for entry in archive.infolist() if not _is_ignored(entry)]
    if len(entries) > MAX_FILES or any(entry.file_size > max_file_bytes for entry in entries):
        raise Invalid(
            f"source: the zip has more than {MAX_FILES} files, or one of over {max_file_bytes} bytes. Split it.",
            code="too_large",
            field="source",
        )
    tables: dict[str, str] = {}
    for entry in entries:
        name = PurePosixPath(entry.filename)
        shown = repr(shorten(entry.filename))
        if name.suffix.lower() not in ENDINGS[format_]:
            raise Invalid(
                f"source: {shown} in the zip has no ending of a {format_} file. Take it out, or choose another format.",
                field="source",
            )
        if not TABLE.fullmatch(name.stem) or name.stem.startswith("_"):
            raise Invalid(
                f"source: no table can have the name of {shown} in the zip. Rename the file: letters, digits and '_', "
                "a letter first.",
                field="source",
            )
        if name.stem in tables:
            raise Invalid(
                f"source: the zip has two files for the table {name.stem!r}. Rename or join them.", field="source"
            )
        tables[name.stem] = entry.filename
    if not tables:
        raise Invalid(
            f"source: there is no {format_} file in the zip. Choose another format, or another file.", field="source"
        )
    return tables


def extract(path: str, name: str, target: str) -> None:
    """Unpack one file. Call list_tables first, which checks how many bytes it has."""
    with _open(path) as archive, archive.open(name) as reading, Path(target).open("wb") as writing:
        shutil.copyfileobj(reading, writing, CHUNK_BYTES)


def _is_ignored(entry: zipfile.ZipInfo) -> bool:
    """Whether it is a folder, or a file that macOS adds by itself."""
    parts: Sequence[str] = PurePosixPath(entry.filename).parts
    return entry.is_dir() or "__MACOSX" in parts or parts[-1:] == (".DS_Store",)


@contextmanager
def _open(path: str) -> Iterator[BoundedZip]:
    try:
        with BoundedZip(Path(path)) as archive:
            yield archive
    except Invalid as exc:
        if "field" in exc.data:
            raise
        raise Invalid(
            "source: this zip unpacks to too much, or is not packed with deflate. Import its files one by one.",
            code=exc.code,
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
        raise Invalid(
            "source: this is not a zip, or it is damaged or encrypted. Pack its files again.", field="source"
        ) from exc
