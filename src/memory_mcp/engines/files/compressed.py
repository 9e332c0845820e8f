"""Compressed files from elsewhere, unpacked within limits: a zip of 40 KB can unpack to 4 GB.

The sizes that an archive states are checked first, and the bytes that really come out are counted while it is read.
"""

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from memory_mcp.errors import Invalid

MIN_EXPANDED_BYTES = 1_000_000_000  # a file of any size may unpack to this
MAX_EXPANSION = 100  # a larger file may unpack to this many times its size
MAX_ZIP_ENTRIES = 1_000_000
MAX_LINE_BYTES = 64 * 1024 * 1024
OnBytes = Callable[[int], object]
"""Called with the number of bytes that were just read."""
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # with others, the file decides how much memory is used


def max_expanded_bytes(compressed_bytes: int, max_expansion: int = MAX_EXPANSION) -> int:
    """How many bytes a file of this size may unpack to."""
    return max(MIN_EXPANDED_BYTES, max_expansion * compressed_bytes)


class ExpansionBudget:
    """How many bytes may still be unpacked from a file and the archives inside it."""

    def __init__(self, compressed_bytes: int) -> None:
        self.max_bytes = max_expanded_bytes(compressed_bytes)
        self._left = self.max_bytes

    def take(self, count: int) -> None:
        """Raises Invalid once the budget is used up."""
        self._left -= count
        if self._left < 0:
            raise too_large()


def too_large() -> Invalid:
    return Invalid(
        f"This file unpacks to more than {MAX_EXPANSION} times its size, or holds more than {MAX_ZIP_ENTRIES} files. "
        "Unpack it yourself, and give the folder.",
        code="too_large",
    )


class BoundedZip(zipfile.ZipFile):
    """A zip that unpacks within a budget. Raises Invalid if it states, or really has, more bytes."""

    def __init__(self, file: Path | IO[bytes], budget: ExpansionBudget | None = None) -> None:
        super().__init__(file)
        self.budget = budget or ExpansionBudget(_size(file))
        try:
            self._check_directory()
        except BaseException:
            self.close()
            raise

    def _check_directory(self) -> None:
        entries = self.infolist()
        if len(entries) > MAX_ZIP_ENTRIES or sum(entry.file_size for entry in entries) > self.budget.max_bytes:
            raise too_large()
        if any(entry.compress_type not in METHODS for entry in entries):
            raise Invalid("This zip uses a compression method other than deflate. Pack it again, or give the folder.")

    def open(self, *args: Any, **kwargs: Any) -> IO[bytes]:
        return count_reads(super().open(*args, **kwargs), self.budget.take)


def open_gzip(stream: IO[bytes], compressed_bytes: int) -> IO[bytes]:
    """The content of a gzip file. Reading raises Invalid once it is more than such a file may unpack to."""
    return count_reads(cast(IO[bytes], gzip.GzipFile(fileobj=stream)), ExpansionBudget(compressed_bytes).take)


def count_reads(stream: IO[bytes], on_bytes: OnBytes) -> IO[bytes]:
    """The same stream; `on_bytes` gets how many bytes each read returns."""
    return io.BufferedReader(_CountedStream(stream, on_bytes))


class _CountedStream(io.RawIOBase):
    def __init__(self, stream: IO[bytes], on_bytes: OnBytes) -> None:
        self._stream = stream
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        self._on_bytes(len(chunk))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file. Raises Invalid for one that is too long to be held in memory."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise Invalid(f"A line is over {MAX_LINE_BYTES} bytes long. Split it.", code="too_large")
        yield line


def _size(file: Path | IO[bytes]) -> int:
    if isinstance(file, Path):
        return file.stat().st_size
    before = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(before)
    return size
