"""The processes of one server, however it starts them: found by a variable in their environment. Linux only."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "BENCH_PEERS_MARK"
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
IDLE_CPU_S = 0.02  # in a second: less than that is idle
IDLE_SECONDS = 3  # in a row
MAX_SETTLE_S = 600.0


def pids(mark: str) -> list[int]:
    """Those that inherited this mark, detached ones too."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _all_pids() if wanted in _environ(pid).split(b"\0")]


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def cpu_s(found: list[int]) -> float:
    """Of all threads of these processes, and of children that they have waited for."""
    return sum(map(_cpu_s, found))


def _cpu_s(pid: int) -> float:
    try:
        # What clock_getcpuclockid(3) returns: nanoseconds, where /proc/PID/stat counts in hundredths of a second.
        own = time.clock_gettime(~pid << 3 | 2)
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return own + (int(after_name[13]) + int(after_name[14])) / CLOCK_TICKS_PER_S


def memory_bytes(found: list[int]) -> int:
    """Proportional set size: pages that processes share count once."""
    return sum(map(_memory_bytes, found))


def _memory_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def kill(mark: str) -> None:
    """SIGKILL to each of them, until none is left."""
    deadline = time.monotonic() + 10
    while (found := pids(mark)) and time.monotonic() < deadline:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def wait_until_idle(mark: str) -> None:
    """Until the processes do nothing in the background any more, such as computing vectors."""
    deadline, idle_seconds, before = time.monotonic() + MAX_SETTLE_S, 0, cpu_s(pids(mark))
    while idle_seconds < IDLE_SECONDS and time.monotonic() < deadline:
        time.sleep(1)
        now = cpu_s(pids(mark))
        idle_seconds = idle_seconds + 1 if now - before < IDLE_CPU_S else 0
        before = now
