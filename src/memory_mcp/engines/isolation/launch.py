"""Processes of this package that work on foreign data: how each of them is started."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import memory_mcp
from memory_mcp.operating_system import MAX_NICENESS

PACKAGES = Path(memory_mcp.__file__).parents[1]


def start_module(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    output: int | IO[str],
    errors: int | IO[str] | None = None,
    has_site_packages: bool = True,
    niceness: int = 0,
) -> subprocess.Popen[bytes]:
    """Start `python -m module` in a process group of its own, with a pipe to its stdin.

    A Ctrl-C in the server's terminal does not reach it. It stays in the server's session, because Linux shares the
    processor between sessions first (autogroups): in a session of its own it would get as much as the whole server,
    whatever its priority. `niceness` is added to the server's.

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
            os.setpriority(os.PRIO_PROCESS, process.pid, total_niceness(niceness))
    return process


def total_niceness(added: int, base: int | None = None) -> int:
    """`added` to the niceness of this process, or to `base`."""
    own = os.getpriority(os.PRIO_PROCESS, 0) if base is None else base
    return min(MAX_NICENESS, own + added)
