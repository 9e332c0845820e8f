"""The sandbox of an engine: the operating system denies it files, network and other programs."""

from collections.abc import Iterable
from pathlib import Path

from memory_mcp.engines.isolation import landlock, seccomp
from memory_mcp.engines.isolation.sandbox import restrict_files

_SYSTEM = ("/sys/fs/cgroup", "/sys/devices/system")
_PROC = (
    *("meminfo", "cpuinfo", "stat", "sys/vm"),
    *("self/maps", "self/statm", "self/status", "self/smaps_rollup", "self/cgroup", "self/mountinfo"),
    # If chDB may not read this file, it reads the memory behind `environ` instead, and may crash as it is loaded.
    "self/auxv",
    # chDB opens `schedstat` of each thread that takes up a statement. If it may not, it throws in each of them, which
    # takes a fifth of the processor time of a small query. `priority` holds this folder open, so that the rule stays.
    "self/task",
)


def missing() -> list[str]:
    """The features that this system lacks to confine engines; empty if it has all."""
    lacks = {
        "Landlock, for files (Linux 5.13 or newer, and not switched off)": not landlock.version(),
        "seccomp filters, for network and programs (Linux on x86_64 or aarch64)": not seccomp.is_possible(),
    }
    return [name for name, is_missing in lacks.items() if is_missing]


def enter(folder: Path, readable: Iterable[Path]) -> None:
    """Confine this process: it can use its portal's folder, and read what Python and the engine need to run. It can
    open no socket and start no program. Features that the system lacks (`missing`) are left out."""
    restrict_files(
        readable=(*map(Path, (*_SYSTEM, *(f"/proc/{name}" for name in _PROC))), *readable),
        writable=(folder, Path("/dev/null")),
    )
    seccomp.restrict()
