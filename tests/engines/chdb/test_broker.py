"""The process that has a portal's engine open, from within."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from memory_mcp.engines.isolation import landlock, seccomp

_LOADED_AFTER_A_TRAP = """
import ctypes, itertools, os, sys
from pathlib import Path
from memory_mcp.engines.chdb import engine as chdb_engine, sandbox

folder = Path(sys.argv[1])
sandbox.enter(folder, readable=[chdb_engine.HERE])
environ = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ")
entries = itertools.takewhile(bool, ctypes.cast(environ, ctypes.POINTER(ctypes.c_size_t)))
moved = [*entries, 0, 33, 2, 0]  # 33, which heads small pieces of malloc's too, announces the address of the vDSO
moved = (ctypes.c_size_t * len(moved))(*moved)
environ.value = ctypes.addressof(moved)
import chdb
chdb.query("SELECT 1")
print("loaded", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(landlock.version() == 0, reason="the kernel has no Landlock")
def test_memory_behind_the_environment_is_not_read_as_the_kernels_answer(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _LOADED_AFTER_A_TRAP, tmp_path],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr[-2000:]


_IN_THE_SANDBOX = """
import ctypes, json, os, socket, subprocess, sys
from pathlib import Path
from memory_mcp.engines.chdb import sandbox

stranger, folder = sys.argv[1], Path(sys.argv[2])
bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sandbox.enter(folder, readable=[])
ways = {
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "tcp": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "pair": lambda: socket.socketpair(),
    "foreign socket": lambda: bound.connect(stranger),
    "program": lambda: os.execv(sys.executable, ["python", "-c", "print('ran')"]),
    "signal": lambda: os.kill(os.getppid(), 0),
    "other process": lambda: os.pidfd_open(os.getppid()),
    "ptrace": lambda: ctypes.CDLL(None, use_errno=True).ptrace(16, os.getppid(), 0, 0) and 1 / 0,
}
outcomes = {}
for name, way in ways.items():
    try:
        way()
        outcomes[name] = "possible"
    except (OSError, ZeroDivisionError) as exc:
        outcomes[name] = "refused"
print(json.dumps(outcomes))
"""


@pytest.mark.skipif(not seccomp.is_possible(), reason="the kernel has no seccomp for this machine")
def test_a_sandboxed_process_reaches_no_network_no_socket_and_no_other_process(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.bind(f"{short}/x")
        done = subprocess.run(
            [sys.executable, "-c", _IN_THE_SANDBOX, f"{short}/x", tmp_path],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    outcomes = json.loads(done.stdout)
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {"refused"}, outcomes
