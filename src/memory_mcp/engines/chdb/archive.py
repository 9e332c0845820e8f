"""A portal in one file: a ClickHouse backup as tar, with a list of its contents and the SHA-256 of each part.

RESTORE checks no checksums, so this reads through a whole file before it is restored. `archive_statements` checks the
statements in it.
"""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from posixpath import normpath
from typing import IO, Any, NamedTuple

from memory_mcp.errors import Invalid

MANIFEST = "mcp-portal.json"
FORMAT = "memory-mcp-portal/1"
MAX_PARTS = 100_000
MAX_MANIFEST_BYTES = 32 * 1024 * 1024
MAX_PATH_BYTES = 4096
CHUNK_BYTES = 1024 * 1024
_MAX_PLAIN_BYTES = 8**11  # a size that fits into a tar header in digits
_PATH_OR_SIZE = re.compile(rb"([1-9][0-9]{0,4}) (path|size)=([^\n]+)\n")  # a record of a pax header


class DamagedArchive(Invalid):
    """The file is not a portal, or was changed after it was made. The message says how."""


class ArchivePart(NamedTuple):
    """Where the content of a file in the archive lies."""

    name: str
    offset: int
    size: int


def seal(path: Path | str, about: Mapping[str, Any], check: Callable[[], None] = lambda: None) -> None:
    """Add the list to a backup the engine has just made. `check` is called again and again meanwhile, and may raise."""
    with Path(path).open("rb") as file:
        manifest = {"format": FORMAT, **about, "sha256": _digests(file, parts_of(file), check)}
    manifest["seal"] = _seal(manifest)
    text = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
    with tarfile.open(path, "a") as archive:
        entry = tarfile.TarInfo(MANIFEST)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def manifest(path: Path | str) -> dict[str, Any]:
    """The list of contents in a file: its `tables` with their rows, and its `metadata`. Raises DamagedArchive if any
    part was changed."""
    try:
        with Path(path).open("rb") as file:
            parts = parts_of(file)
            _check_end(file, parts)
            manifest = json.loads(read_part(file, parts, MANIFEST, MAX_MANIFEST_BYTES))
            digests = _digests(file, parts)
    except (tarfile.TarError, ValueError, RecursionError, OSError, EOFError) as exc:
        raise DamagedArchive("This is not a portal file, or not all of it is there.") from exc
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DamagedArchive("This is not a portal file of a kind this program knows.")
    if manifest.pop("seal", None) != _seal(manifest) or manifest.pop("sha256", None) != digests:
        raise DamagedArchive("This portal file was changed or damaged after it was made.")
    if not all(isinstance(manifest.get(part), dict) for part in ("tables", "metadata")):
        raise DamagedArchive("This portal file does not say what it holds.")
    return manifest


def verify(path: Path | str) -> None:
    """Raises DamagedArchive unless a file is a portal and no part was changed."""
    manifest(path)


def parts_of(file: IO[bytes]) -> dict[str, ArchivePart]:
    """The parts of a file by name, as its headers list them. Their contents are not read.

    Raises DamagedArchive for entries that no engine writes: sparse files, links, devices, headers for the whole
    file, and a part beyond the end of the file.
    """
    length = file.seek(0, io.SEEK_END)
    parts: dict[str, ArchivePart] = {}
    extended: dict[str, str] = {}
    offset = 0
    while (entry := _header(file, offset)) is not None:
        offset += tarfile.BLOCKSIZE
        if entry.type == tarfile.XHDTYPE and not extended:
            extended, size = _extended(file, entry), entry.size
        else:
            part = _part(entry, offset, extended, length)
            if part.name in parts:
                raise DamagedArchive(f"This portal file holds {part.name[:200]!r} twice.")
            parts[part.name] = part
            extended, size = {}, part.size
        if len(parts) > MAX_PARTS:
            raise DamagedArchive("This portal file has too many parts.")
        offset += _padded(size)
    if extended:
        raise DamagedArchive("Not all of this portal file is there.")
    return parts


def _part(entry: tarfile.TarInfo, offset: int, extended: Mapping[str, str], length: int) -> ArchivePart:
    name, size = extended.get("path", entry.name), int(extended.get("size", entry.size))
    is_plain_path = name == normpath(name).lstrip("/") and not name.startswith("..")
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not is_plain_path:
        raise DamagedArchive(f"This portal file holds {name[:200]!r}, which no portal does.")
    if not 0 <= size <= length - offset:
        raise DamagedArchive("Not all of this portal file is there.")
    return ArchivePart(name, offset, size)


def _header(file: IO[bytes], offset: int) -> tarfile.TarInfo | None:
    """The header at an offset; None for the block of zeros that ends the file."""
    file.seek(offset)
    block = file.read(tarfile.BLOCKSIZE)
    if block == bytes(tarfile.BLOCKSIZE):
        return None
    if len(block) < tarfile.BLOCKSIZE:
        raise EOFError
    return tarfile.TarInfo.frombuf(block, "utf-8", "strict")


def _extended(file: IO[bytes], entry: tarfile.TarInfo) -> dict[str, str]:
    """The fields of a pax header for the next part: its path if that is long, and its size beyond 8 GiB."""
    text = file.read(entry.size) if entry.size <= MAX_PATH_BYTES else b""
    fields: dict[str, str] = {}
    offset = 0
    while (found := _PATH_OR_SIZE.match(text, offset)) and int(found[1]) == len(found[0]):
        fields[found[2].decode()] = found[3].decode()
        offset = found.end()
    is_size = fields.get("size", str(_MAX_PLAIN_BYTES))
    if not fields or offset != len(text) or not is_size.isdecimal() or int(is_size) < _MAX_PLAIN_BYTES:
        raise DamagedArchive("This portal file has a header that no portal has.")
    return fields


def _check_end(file: IO[bytes], parts: Mapping[str, ArchivePart]) -> None:
    """Raises DamagedArchive unless a file ends like the files of this program: with zeros up to the end of a tar
    record."""
    end = max((_padded(part.offset + part.size) for part in parts.values()), default=0)
    whole = -(-(end + 2 * tarfile.BLOCKSIZE) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    file.seek(end)
    if file.read(whole - end + 1) != bytes(whole - end):
        raise DamagedArchive("This portal file does not end where it should.")


def _padded(size: int) -> int:
    """The size, rounded up to the next block."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _seal(manifest: Mapping[str, Any]) -> str:
    """The checksum of the list itself, so that a change of its tables is noticed, too."""
    return sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _digests(
    file: IO[bytes], parts: Mapping[str, ArchivePart], check: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """The SHA-256 of each part but the list itself."""
    return {name: _digest(file, part, check) for name, part in parts.items() if name != MANIFEST}


def _digest(file: IO[bytes], part: ArchivePart, check: Callable[[], None]) -> str:
    digest = sha256()
    for chunk in _chunks(file, part):
        digest.update(chunk)
        check()
    return digest.hexdigest()


def _chunks(file: IO[bytes], part: ArchivePart) -> Iterator[bytes]:
    file.seek(part.offset)
    left = part.size
    while left:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise EOFError
        left -= len(chunk)
        yield chunk


def read_part(file: IO[bytes], parts: Mapping[str, ArchivePart], name: str, max_bytes: int) -> bytes:
    if name not in parts:
        raise DamagedArchive("Not all of this portal file is there.")
    if parts[name].size > max_bytes:
        raise DamagedArchive(f"{name} in this portal file is too large.")
    return b"".join(_chunks(file, parts[name]))
