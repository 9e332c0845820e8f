"""Processes of this package that work on foreign data: how each of them is started."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import memory_mcp
from memory_mcp.system.operating_system import MAX_NICENESS, set_priority

PACKAGES = Path(memory_mcp.__file__).parents[1]
REAP_DELAY_S = 2.0


def start_module(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    output: int | IO[str],
    errors: int | IO[str] | None = None,
    has_site_packages: bool = True,
    niceness: int = 0,
    yields: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `python -m module` in a process group of its own, with a pipe to its stdin.

    A Ctrl-C in the server's terminal does not reach it. It stays in the server's session, because Linux shares the
    processor between sessions first (autogroups): in a session of its own it would get as much as the whole server,
    whatever its priority. `niceness` is added to the server's; a process that `yields` gets only processors that no
    other wants.

    It gets no more of the server's environment than `environment`, which holds no secret. It starts in the package's
    folder: Python may import from where it starts, and its sandbox lets it read whatever it may import. Every user of
    the machine sees `arguments`. Without site packages it starts in half the time.
    """
    process = subprocess.Popen(
        [sys.executable, *([] if has_site_packages else ["-S"]), "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=errors,
        process_group=0,
        cwd=PACKAGES,
        env=dict(environment),
    )
    if niceness:
        with suppress(OSError):  # it has ended already
            set_priority(process.pid, total_niceness(niceness), yields=yields)
    return process


def exit_status(process: subprocess.Popen[bytes]) -> int | None:
    """As Popen's returncode, once the process has ended. It stays a zombie until it is reaped."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:  # it was reaped just now
        return process.poll()
    return ended and _status_of(ended)


def reap(process: subprocess.Popen[bytes]) -> int:
    """Wait until the process has ended, and remove it from the table of processes. Returns its exit status.

    It is removed REAP_DELAY_S after its end. Linux (6.18 here) waits actively in wait4 until the threads of the process
    have left /proc. At a low priority that takes them up to seconds on a busy machine, and the calling thread would
    compute all that time, at the server's priority.
    """
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):  # it was reaped elsewhere
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            time.sleep(REAP_DELAY_S)
    return process.wait()


def _status_of(ended: os.waitid_result) -> int:
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def total_niceness(added: int, base: int | None = None) -> int:
    """`added` to the niceness of this process, or to `base`."""
    own = os.getpriority(os.PRIO_PROCESS, 0) if base is None else base
    return min(MAX_NICENESS, own + added)
