"""Who works on a data directory: every process that has it open shares a lock; whoever must be alone takes it whole.

The system frees it however a process ends. Where there is no `flock` (Windows), nobody is kept from anything.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_mcp.errors import Unavailable, Unusable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # the module is simply absent there

LOCK = "in-use.lock"
RESTORING = "restore.json"  # is there while what was restored is put in its place
LOCK_TIMEOUT_S = 30.0  # seconds that whoever comes waits for one who is alone
PAUSE = 0.05


@contextmanager
def present(folder: Path, wait: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Use a data directory beside others. Raises Unavailable while somebody must be alone in it."""
    with _locked(folder, shared=True, wait=wait) as is_held:
        if not is_held:
            raise Unavailable("This memory is being restored. Try again when that is done.")
        yield


@contextmanager
def alone(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Use a data directory while nobody else does. Raises Unavailable naming the processes that do."""
    with _locked(folder, shared=False, wait=wait) as is_held:
        if not is_held:
            raise Unavailable(_in_use(holders(folder)))
        yield


def holders(folder: Path) -> list[int]:
    """The other processes that have a data directory open, where the system tells (Linux)."""
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
    return f"Servers are running on this data directory{named}. Stop them, or close the clients that started them."


@contextmanager
def _locked(folder: Path, *, shared: bool, wait: float) -> Iterator[bool]:
    """Whether the lock could be had in time. Held for the block."""
    if fcntl is None:
        yield True
        return
    handle = _opened(folder)
    try:
        deadline = time.monotonic() + wait
        while not (is_held := _tried(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)):
            if time.monotonic() >= deadline:
                break
            time.sleep(PAUSE)
        yield is_held
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    try:
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise Unusable(
            "The data directory cannot be opened or written. Check that it exists and is yours, or use another "
            "--data-dir."
        ) from exc


def _tried(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
