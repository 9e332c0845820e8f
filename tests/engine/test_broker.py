"""The process that has a portal's engine open, from within."""

import subprocess
import sys
from pathlib import Path

import pytest

from memory_mcp.engine import landlock

_LOADED_AFTER_A_TRAP = """
import ctypes, itertools, sys
from pathlib import Path
from memory_mcp.engine import broker

folder = Path(sys.argv[1])
broker._shut_in(folder, folder)
environ = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ")
entries = itertools.takewhile(bool, ctypes.cast(environ, ctypes.POINTER(ctypes.c_size_t)))
moved = [*entries, 0, 33, 2, 0]  # 33, which heads small pieces of malloc's too, announces the address of the vDSO
moved = (ctypes.c_size_t * len(moved))(*moved)
environ.value = ctypes.addressof(moved)
import chdb
chdb.query("SELECT 1")
print("loaded", flush=True)
broker.os._exit(0)
"""


@pytest.mark.skipif(landlock.version() == 0, reason="the kernel has no Landlock")
def test_what_lies_behind_the_environment_is_not_taken_for_what_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _LOADED_AFTER_A_TRAP, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr[-2000:]
