"""Measured times, and tables of them."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import apsw

from memory_mcp import __version__


@dataclass
class Timed:
    """What one way of doing it took, call by call."""

    walls: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def run(self, work: Callable[[], object]) -> None:
        """Do it in this process."""
        cpu, started = time.process_time(), time.perf_counter()
        work()
        self.walls.append(time.perf_counter() - started)
        self.cpu += time.process_time() - cpu

    @property
    def p50(self) -> float:
        return statistics.median(self.walls)

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.walls, n=20)[-1]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.walls)

    @property
    def cpu_each(self) -> float:
        return self.cpu / len(self.walls)


def introduction() -> str:
    return f"{versions()}, {load()} at the start"


def versions() -> str:
    return (
        f"Memory MCP {__version__}, mcp {version('mcp')}, SQLite {apsw.sqlite_lib_version()}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )


def load() -> str:
    return "load average " + " ".join(f"{load:.2f}" for load in os.getloadavg())


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """A table with its first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"\n{title}")
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        print("  " + "  ".join(cells), flush=True)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Its first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *others = rows
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for first, *cells in (heading, rule, *others):
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("| " + " | ".join([first.ljust(widths[0]), *right]) + " |")
    return "\n".join(lines)
