"""Attacks of every class, each as tests that fail when the defence falls: `make attack`.

Everything stays on loopback. The exit status is 1 if one attack succeeded.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass, field

import pytest
from benchmarks.figures import introduction, load, print_table

from tests.attacks.classes import CLASSES, AttackClass

STATEMENTS = 100_000
MESSAGES = 10_000


@dataclass(eq=False)  # pytest puts its plugins into sets
class Counts:
    """A pytest plugin. A test is one attempt, unless it records how many it has made."""

    attempts: int = 0
    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1
            self.attempts += int(str(dict(report.user_properties).get("attempts", 1)))


def main() -> None:
    options = _options()
    # Read when the tests are imported.
    os.environ |= {
        "MEMORY_MCP_SOAK": "1",
        "MEMORY_MCP_ATTACK_STATEMENTS": str(options.statements),
        "MEMORY_MCP_FUZZ_MESSAGES": str(options.messages),
    }
    print(introduction())
    began = time.monotonic()
    chosen = [one for one in CLASSES if not options.only or options.only in one.name]
    counted = [(one, _run(one)) for one in chosen]
    rows: list[tuple[str, ...]] = [("class", "attempts", "tests", "skipped", "failed")]
    for one, counts in counted:
        rows.append((one.name, f"{counts.attempts:,}", *map(str, (counts.passed, counts.skipped, len(counts.failed)))))
    print_table("Attacks", rows)
    total = sum(counts.attempts for _, counts in counted)
    print(f"\n{total:,} attempts in {time.monotonic() - began:.0f} s, {load()} at the end")
    if failed := [name for _, counts in counted for name in counts.failed]:
        print("\n".join(failed))
        raise SystemExit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make attack ARGS=", description=__doc__)
    parser.add_argument("--statements", type=int, default=STATEMENTS, help="generated portal escapes")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="malformed messages over each transport")
    parser.add_argument("--only", help="classes with these words in their name")
    return parser.parse_args()


def _run(one: AttackClass) -> Counts:
    """A class in this process: `-n` would lose what tests record."""
    counts = Counts()
    words = ["-k", one.words] if one.words else []
    code = pytest.main(["-q", "-p", "no:cacheprovider", *one.files, *words], plugins=[counts])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        counts.failed.append(f"{one.name}: pytest ended with {code}")
    sys.stdout.flush()
    return counts


if __name__ == "__main__":
    main()
