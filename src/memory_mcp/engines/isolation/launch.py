"""Processes of this package that work on foreign data: how each of them is started."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import memory_mcp

PACKAGES = Path(memory_mcp.__file__).parents[1]


def start_module(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    output: int | IO[str],
    errors: int | IO[str] | None = None,
    has_site_packages: bool = True,
) -> subprocess.Popen[bytes]:
    """Start `python -m module` in a session of its own, with a pipe to its stdin.

    It gets no more of the server's environment than `environment`, which holds no secret. It starts in the package's
    folder: Python may import from where it starts, and its sandbox lets it read whatever it may import. Every user of
    the machine sees `arguments`. Without site packages it starts in half the time.
    """
    return subprocess.Popen(
        [sys.executable, *([] if has_site_packages else ["-S"]), "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=errors,
        start_new_session=True,
        cwd=PACKAGES,
        env=dict(environment),
    )
