"""Ctrl-C ends a benchmark with a sentence."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def fail_with(error: str) -> "subprocess.CompletedProcess[str]":
    code = f"import benchmarks.figures; raise {error}"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_ctrl_c_prints_no_traceback() -> None:
    done = fail_with("KeyboardInterrupt")
    assert done.returncode != 0
    assert done.stderr.startswith("\nInterrupted.")
    assert "Traceback" not in done.stderr


def test_other_errors_are_shown_whole() -> None:
    assert "Traceback" in fail_with("ValueError").stderr
