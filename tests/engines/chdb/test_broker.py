"""The process that has a portal's engine open, from within."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from memory_mcp.engines.chdb.client import EngineConnections
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
import ctypes, errno, json, os, platform, signal, socket, subprocess, sys, threading
from pathlib import Path
from memory_mcp.engines.chdb import sandbox

stranger, folder = sys.argv[1], Path(sys.argv[2])
bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sandbox.enter(folder, readable=[])
libc = ctypes.CDLL(None, use_errno=True)


def call(numbers, *arguments):
    # Any other failure than the filter's comes from the kernel, which the call has reached.
    done = libc.syscall(numbers[platform.machine()], *arguments)
    if done < 0 and ctypes.get_errno() == errno.EPERM:
        raise PermissionError


signal.pthread_kill(threading.get_ident(), 0)  # to a thread of its own
signal.raise_signal(signal.SIGCHLD)
ways = {
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "tcp": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "pair": lambda: socket.socketpair(),
    "foreign socket": lambda: bound.connect(stranger),
    "program": lambda: os.execv(sys.executable, ["python", "-c", "print('ran')"]),
    "signal": lambda: os.kill(os.getppid(), 0),
    "other process": lambda: os.pidfd_open(os.getppid()),
    "signal to a thread": lambda: call({"x86_64": 234, "aarch64": 131}, os.getppid(), os.getppid(), 0),
    "queued signal": lambda: call({"x86_64": 129, "aarch64": 138}, os.getppid(), 0, 0),
    "tkill": lambda: call({"x86_64": 200, "aarch64": 130}, os.getppid(), 0),
    "userfaultfd": lambda: call({"x86_64": 323, "aarch64": 282}, 1),
    "perf_event_open": lambda: call({"x86_64": 298, "aarch64": 241}, 0, 0, -1, -1, 0),
    "keyctl": lambda: call({"x86_64": 250, "aarch64": 219}, 0, -4, 1),
    "open_by_handle_at": lambda: call({"x86_64": 304, "aarch64": 265}, -1, 0, 0),
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
    assert len(outcomes) == 15
    assert set(outcomes.values()) == {"refused"}, outcomes


_WITH_ITS_THREADS = """
import json, os, sys, threading
from pathlib import Path
from memory_mcp.engines.chdb import sandbox
from memory_mcp.engines.chdb.priority import Priority

folder, secret = Path(sys.argv[1]), Path(sys.argv[2])
os.chdir(secret.parent)
opened = secret.open()
priority = Priority(0, yields_when_busy=False)
sandbox.enter(folder, readable=[])
own = "/proc/thread-self"
ways = {
    "secret": lambda: secret.read_text(),
    "secret by the root": lambda: Path(f"{own}/root{secret}").read_text(),
    "secret by the working directory": lambda: Path(f"{own}/cwd/{secret.name}").read_text(),
    "secret by an open file": lambda: Path(f"{own}/fd/{opened.fileno()}").read_text(),
    "writing": lambda: Path(f"{own}/comm").write_text("x"),
    "another process": lambda: Path(f"/proc/{os.getppid()}/task/{os.getppid()}/environ").read_bytes(),
    "times": lambda: Path(f"{own}/schedstat").read_text(),
}
outcomes = {}


def attempt() -> None:
    for name, way in ways.items():
        try:
            way()
            outcomes[name] = "possible"
        except OSError:
            outcomes[name] = "refused"


thread = threading.Thread(target=attempt)
thread.start()
thread.join()
print(json.dumps(outcomes))
"""


@pytest.mark.skipif(landlock.version() == 0, reason="the kernel has no Landlock")
def test_a_sandboxed_process_reads_the_times_of_its_threads_and_nothing_else_through_them(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("x")
    done = subprocess.run(
        [sys.executable, "-c", _WITH_ITS_THREADS, tmp_path / "inside", secret],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    outcomes = json.loads(done.stdout)
    assert outcomes.pop("times") == "possible"
    assert len(outcomes) == 6
    assert set(outcomes.values()) == {"refused"}, outcomes


@pytest.mark.skipif(sys.platform != "linux", reason="the times of threads are in /proc")
def test_an_engine_reads_the_times_of_its_threads(tmp_path: Path) -> None:
    """If it may not, it throws in each thread that takes up a statement."""
    engine = EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    engine.run("SELECT 1")
    (row,) = engine.rows("SELECT count() AS found FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'")
    engine.end_engine()
    assert row["found"]
