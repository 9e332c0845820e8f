"""What the operating system keeps an engine from: files, network, other programs."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from memory_mcp.engine import landlock, seccomp

_SYSTEM = (
    *("/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime"),
    *("/dev/urandom", "/sys/fs/cgroup", "/sys/devices/system"),
)
_PROC = (
    *("meminfo", "cpuinfo", "stat", "sys/vm"),
    *("self/maps", "self/statm", "self/status", "self/smaps_rollup", "self/cgroup", "self/mountinfo"),
    # Where it may not read this, chDB takes for it whatever lies behind `environ`, and dies as it is loaded if that
    # happens to look right.
    "self/auxv",
)
NICENESS = 2  # below the servers: one user's queries do not delay the calls of another


def missing() -> list[str]:
    """What this system lacks to confine engines; empty if nothing."""
    lacks = {
        "Landlock, for files (Linux 5.13 or newer, and not switched off)": not landlock.version(),
        "seccomp filters, for network and programs (Linux on x86_64 or aarch64)": not seccomp.is_possible(),
    }
    return [name for name, is_missing in lacks.items() if is_missing]


def enter(folder: Path, readable: Iterable[Path]) -> None:
    """Confine this process: it can use its portal's folder, and read what Python and the engine need to run. It can
    open no socket and start no program. What the system lacks for that (`missing`) is left out."""
    python = (sys.prefix, sys.base_prefix, *filter(None, sys.path))
    landlock.restrict(
        readable=(*map(Path, (*python, *_SYSTEM, *(f"/proc/{name}" for name in _PROC))), *readable),
        writable=(folder, Path("/dev/null")),
    )
    seccomp.restrict()


class Priority:
    """The processor priority of this process. Create it before `enter`, which makes /proc unreadable."""

    def __init__(self) -> None:
        self._threads = _open_or_none("/proc/self/task", os.O_RDONLY)
        self._session = _open_or_none("/proc/self/autogroup", os.O_WRONLY)

    def lower(self) -> None:
        """Lower the priority of all threads, of those they start, and of the session: where autogroups are on, Linux
        shares the processor between sessions first."""
        if self._threads is None:
            os.nice(NICENESS)
            return
        for thread in os.listdir(self._threads):  # noqa: PTH208  # an open folder, whose path the sandbox closes
            with suppress(OSError):  # it has just ended
                os.setpriority(os.PRIO_PROCESS, int(thread), NICENESS)
        if self._session is not None:
            with suppress(OSError):  # changes are rationed, to one in 0.1 s of all users together
                os.write(self._session, str(NICENESS).encode())


def _open_or_none(path: str, flags: int) -> int | None:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return None
