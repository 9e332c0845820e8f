import ctypes
import sys
from pathlib import Path

import pytest

from memory_mcp.system import garbage

BLOCKS, BLOCK_BYTES = 20_000, 2_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_what_the_c_library_has_free_is_returned() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK_BYTES) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK_BYTES)
    for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
        libc.free(block)
    before = resident_bytes()
    garbage.release_free_memory()
    assert before - resident_bytes() > BLOCKS * BLOCK_BYTES / 2
    libc.free(blocks[-1])
