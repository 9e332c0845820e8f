"""What the operating system keeps an engine from: files, network, other programs."""

from collections.abc import Iterable
from pathlib import Path

from memory_mcp.engines.isolation import landlock, seccomp
from memory_mcp.engines.isolation.sandbox import restrict_files

_SYSTEM = ("/sys/fs/cgroup", "/sys/devices/system")
_PROC = (
    *("meminfo", "cpuinfo", "stat", "sys/vm"),
    *("self/maps", "self/statm", "self/status", "self/smaps_rollup", "self/cgroup", "self/mountinfo"),
    # Where it may not read this, chDB takes for it whatever lies behind `environ`, and crashes as it is loaded if that
    # happens to look right.
    "self/auxv",
)


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
    restrict_files(
        readable=(*map(Path, (*_SYSTEM, *(f"/proc/{name}" for name in _PROC))), *readable),
        writable=(folder, Path("/dev/null")),
    )
    seccomp.restrict()
