"""memory-mcp on a computer whose clock is wrong: `python -m benchmarks.skewed SECONDS [ARGUMENT …]`.

Both clocks are shifted that the product looks at, Python's and SQLite's, which the triggers in notes.db go by.
"""

import sys
import time
from datetime import datetime, timedelta

import apsw

from memory_mcp import clock


class ShiftedFiles(apsw.VFS):
    """The system's files under a clock of their own."""

    def __init__(self, seconds: float) -> None:
        self._ms = int(seconds * 1000)
        super().__init__("shifted", "", makedefault=True)

    def xCurrentTimeInt64(self) -> int:  # noqa: N802  # SQLite's name
        return super().xCurrentTimeInt64() + self._ms


def shift(seconds: float) -> ShiftedFiles:
    """Before anything else of the product is imported: most of it takes these functions by name."""
    seconds_now, nanoseconds_now, moment_now = time.time, time.time_ns, clock.utc_now

    def utc_now() -> datetime:
        return moment_now() + timedelta(seconds=seconds)

    time.time = lambda: seconds_now() + seconds
    time.time_ns = lambda: nanoseconds_now() + int(seconds * 1e9)
    clock.utc_now = utc_now
    return ShiftedFiles(seconds)


def main() -> None:
    seconds, *arguments = sys.argv[1:]
    files = shift(float(seconds))
    from memory_mcp.__main__ import main as memory_mcp

    sys.argv = ["memory-mcp", *arguments]
    try:
        memory_mcp(arguments)
    finally:
        files.unregister()


if __name__ == "__main__":
    main()
