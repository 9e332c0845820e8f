"""Limits of a process that the operating system enforces where it can: files and the network."""

import sys
from collections.abc import Iterable
from pathlib import Path

from memory_mcp.engines.isolation import landlock

_SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime"),
    "/dev/urandom",
)
_NETWORK_FILES = ("/etc", "/usr/share", "/usr/local/share", "/run/systemd/resolve")  # host names, certificates


def restrict_files(readable: Iterable[Path], writable: Iterable[Path], *, network: bool = False) -> None:
    """Limit this process to these paths, and read what Python needs to run. No TCP without
    `network`."""
    python = (sys.prefix, sys.base_prefix, *filter(None, sys.path))
    more = _NETWORK_FILES if network else ()
    landlock.restrict(readable=(*map(Path, (*python, *_SYSTEM, *more)), *readable), writable=writable, network=network)
