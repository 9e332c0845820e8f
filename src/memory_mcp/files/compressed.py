"""Compressed files that others made, and how much they may become: a zip of 40 KB can unpack to 4 GB.

What an archive says of itself is checked first, and what really comes out of it is counted while it is read.
"""

import gzip
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from memory_mcp.errors import Invalid

MIN_EXPANDED_BYTES = 1_000_000_000  # that any file may become, however small it is
MAX_EXPANSION = 100  # times its own size that a larger file may become
MAX_ZIP_ENTRIES = 1_000_000
MAX_LINE_BYTES = 64 * 1024 * 1024
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # others take as much memory as the file says


class Allowance:
    """How many bytes may still come out of a file, and out of the files in it."""

    def __init__(self, compressed_bytes: int) -> None:
        self.max_bytes = max(MIN_EXPANDED_BYTES, MAX_EXPANSION * compressed_bytes)
        self._left = self.max_bytes

    def take(self, count: int) -> None:
        """Raises Invalid once it is used up."""
        self._left -= count
        if self._left < 0:
            raise too_large()


def too_large() -> Invalid:
    return Invalid(
        f"This file unpacks to more than {MAX_EXPANSION} times its size, or holds more than {MAX_ZIP_ENTRIES} files. "
        "Unpack it yourself, and give the folder.",
        word="too_large",
    )


class BoundedZip(zipfile.ZipFile):
    """A zip of which only so much is read. Raises Invalid for one that says that it is larger, or is."""

    def __init__(self, file: Path | IO[bytes], allowance: Allowance | None = None) -> None:
        super().__init__(file)
        self.allowance = allowance or Allowance(_size(file))
        try:
            self._check_directory()
        except BaseException:
            self.close()
            raise

    def _check_directory(self) -> None:
        entries = self.infolist()
        if len(entries) > MAX_ZIP_ENTRIES or sum(entry.file_size for entry in entries) > self.allowance.max_bytes:
            raise too_large()
        if any(entry.compress_type not in METHODS for entry in entries):
            raise Invalid("This zip is packed in a way that is not read here. Pack it again, or give the folder.")

    def open(self, *asked: Any, **more: Any) -> IO[bytes]:
        return counted(super().open(*asked, **more), self.allowance)


def unzip_stream(stream: IO[bytes], compressed_bytes: int) -> IO[bytes]:
    """What a gzip file holds, as far as it may."""
    return counted(cast(IO[bytes], gzip.GzipFile(fileobj=stream)), Allowance(compressed_bytes))


def counted(stream: IO[bytes], allowance: Allowance) -> IO[bytes]:
    return io.BufferedReader(_Counted(stream, allowance))


class _Counted(io.RawIOBase):
    def __init__(self, stream: IO[bytes], allowance: Allowance) -> None:
        self._stream = stream
        self._allowance = allowance

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        self._allowance.take(len(chunk))
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
            raise Invalid(f"A line is over {MAX_LINE_BYTES} bytes long.", word="too_large")
        yield line


def _size(file: Path | IO[bytes]) -> int:
    if isinstance(file, Path):
        return file.stat().st_size
    before = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(before)
    return size
