"""Which processes use a data directory: each shares a lock; a process that must be the only one holds it exclusively.

The system frees it however a process ends. Without `flock` (Windows) nothing is locked.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_mcp.engines.files.lock import lock_handle
from memory_mcp.errors import Unavailable, Unusable

LOCK = "in-use.lock"
RESTORING = "restore.json"  # exists while restored files are moved into place
LOCK_TIMEOUT_S = 30.0  # for a process that holds it exclusively
POLL_INTERVAL_S = 0.05


@contextmanager
def shared(folder: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Use a data directory beside other processes. Raises Unavailable while one holds it exclusively."""
    with _lock(folder, shared=True, timeout_s=timeout_s) as is_held:
        if not is_held:
            raise Unavailable("This memory is being restored. Try again when that is done.")
        yield


@contextmanager
def exclusive(folder: Path, timeout_s: float = 0.0) -> Iterator[None]:
    """Use a data directory while no other process does. Raises Unavailable naming the processes that do."""
    with _lock(folder, shared=False, timeout_s=timeout_s) as is_held:
        if not is_held:
            raise Unavailable(_in_use(holders(folder)))
        yield


def holders(folder: Path) -> list[int]:
    """The other processes that have a data directory open, where the system lists them (Linux)."""
    with suppress(OSError, ValueError):
        inode = (folder / LOCK).stat().st_ino
        found = set()
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and int(fields[5].rsplit(":", 1)[1]) == inode:
                found.add(int(fields[4]))
        return sorted(found - {os.getpid()})
    return []


def _in_use(processes: list[int]) -> str:
    named = f" (process {', '.join(map(str, processes))})" if processes else ""
    return (
        f"Servers are running on this data directory{named}. `memory-mcp stop` stops those in the background; close "
        "the clients that started the others."
    )


@contextmanager
def _lock(folder: Path, *, shared: bool, timeout_s: float) -> Iterator[bool]:
    """Whether the lock was free in time. Held for the block."""
    handle = _open(folder)
    try:
        yield lock_handle(handle, timeout_s, shared=shared, poll_interval_s=POLL_INTERVAL_S)
    finally:
        os.close(handle)


def _open(folder: Path) -> int:
    try:
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise Unusable(
            "The data directory cannot be opened or written. Check that it exists and is yours, or use another "
            "--data-dir."
        ) from exc
