"""The header of a file of packed vectors (packed_file.py), read and written without NumPy."""

import json
import os
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT = 1
PAGE = 4096


@dataclass(frozen=True)
class Header:
    space: str  # of the vectors
    dimensions: int
    reached: int  # the last change of the database that the file has
    token: str  # the database has the same
    count: int = 0
    capacity: int = 0  # rows, with those to spare
    has_bits: bool = False
    owners_checksum: int = 0
    erased: int = 0  # the last change of the database whose deletions were overwritten
    format: int = FORMAT

    @property
    def words_per_vector(self) -> int:
        """Of 64 bits each, in which a vector has a bit for each of its numbers."""
        return -(-self.dimensions // 64)

    @property
    def layout(self) -> dict[str, tuple[int, int]]:
        """The offset and the length of each array."""
        sizes = {"owners": 8 * self.capacity}
        if self.has_bits:
            sizes["mean"] = 4 * self.dimensions
            sizes["bits"] = 8 * self.words_per_vector * self.capacity
        sizes["vectors"] = 4 * self.dimensions * self.capacity
        offset, found = PAGE, {}
        for name, size in sizes.items():
            found[name] = offset, size
            offset += -(-size // PAGE) * PAGE
        return found

    @property
    def file_size(self) -> int:
        offset, size = self.layout["vectors"]
        return offset + -(-size // PAGE) * PAGE

    def to_bytes(self) -> bytes:
        text = json.dumps(asdict(self)).encode()
        return (b"%08x" % zlib.crc32(text) + text).ljust(PAGE)


def read_header(path: Path) -> Header | None:
    """None if there is no file, or none of this format."""
    try:
        with path.open("rb") as file:
            page, size = file.read(PAGE), os.fstat(file.fileno()).st_size
    except OSError:
        return None
    text = page[8:].rstrip()
    with suppress(ValueError, TypeError):
        if int(page[:8], 16) == zlib.crc32(text):
            header = Header(**json.loads(text))
            return header if header.format == FORMAT and header.file_size == size else None
    return None


def write_header(path: Path, header: Header) -> None:
    with path.open("r+b") as file:
        file.write(header.to_bytes())
        file.flush()
        os.fsync(file.fileno())
