"""Ended child processes: their status is known at once, and they are removed later."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory_mcp.engines.isolation import launch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="os.waitid, and /proc")


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", code])


def state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("code", "status"), [("", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)]
)
def test_a_process_is_removed_some_time_after_its_end(monkeypatch: pytest.MonkeyPatch, code: str, status: int) -> None:
    process = start(code)
    slept: list[tuple[float, int | None, str]] = []

    def sleep(seconds: float) -> None:
        slept.append((seconds, launch.exit_status(process), state(process)))

    monkeypatch.setattr(time, "sleep", sleep)
    assert launch.reap(process) == status
    assert slept == [(launch.REAP_DELAY_S, status, "Z")]  # meanwhile it is a zombie whose status is known
    assert not Path(f"/proc/{process.pid}").exists()
    assert launch.exit_status(process) == launch.reap(process) == status


def test_a_running_process_has_no_status() -> None:
    process = start("input()")
    assert launch.exit_status(process) is None
    process.kill()
    process.wait()
    assert launch.exit_status(process) == -signal.SIGKILL
