"""What `make soak` found, as tables and as a chart of latencies over time."""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.chart import STYLE

from benchmarks.figures import ms, print_table
from benchmarks.soak.disk import DiskAtRest
from benchmarks.soak.servers import REST_S, Sample
from benchmarks.soak.visitors import Record, Visitor

MAX_GROWTH = 0.10  # of the last third of the time over the middle third
MAX_MEMORY_RATIO = 1.10  # of a server at rest after the run, over one that was started on the same data
MAX_DISK_RATIO = 1.15  # bytes on the disk at rest over those of a new data directory with the same memories
MAX_HISTORY_BYTES = 600  # on the disk, for each write
MIN_SHOWN_BYTES = 50_000  # of a kind of file
SHOWN = 5  # of the errors
CHART = Path(__file__).parents[2] / "docs" / "pictures" / "soak.svg"
PERCENTILES = (50, 95, 99)
INTERVALS = 30  # of time, in the chart
LEFT, TOP, WIDTH, HEIGHT = 60, 56, 640, 220
MB = 1e6


@dataclass
class Soaked:
    """What happened in the time that is measured."""

    record: Record
    seconds: float
    cpu: float
    samples: list[Sample]
    visitors: list[Visitor]
    notifications: int
    page_changes: int
    page_visits: int
    failed: list[str]

    @property
    def writes(self) -> int:
        """Acknowledged so far."""
        return sum(sum(visitor.kept.acknowledged.values()) for visitor in self.visitors)


@dataclass(frozen=True)
class ReadBack:
    """What a new server has of what was acknowledged."""

    there: Counter[str]  # things of each family, as last written
    lost: Sequence[str]
    seconds: float
    cpu: float  # seconds of the server's


@dataclass(frozen=True)
class MemoryAtRest:
    """Bytes of a server's own memory. What the first holds and a new server on the same data does not was leaked."""

    after_run: int
    new_server: int  # on the same data, after the same work for a short time, and after reading everything back
    new_server_s: float  # how long it had worked


def complaints(log: Path) -> list[str]:
    """Unexpected lines of the servers' logs, with their exceptions."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if re.search(r"warning|error|exception|traceback", line, re.IGNORECASE)]


def print_failures(failures: Mapping[str, Sequence[str]]) -> None:
    for title, lines in failures.items():
        if lines:
            print(f"\n{title} ({len(lines)}):", *lines[:SHOWN], sep="\n  ")


def print_run(
    soaked: Soaked,
    empty: Sequence[tuple[float, float]],
    found: ReadBack,
    synced: int,
    memory: MemoryAtRest,
    disk: DiskAtRest,
) -> bool:
    """Whether memory, handles and disk stayed within their goals."""
    _print_calls(soaked)
    _print_speed(soaked, empty)
    _print_kept(soaked, found, synced)
    are_met = (_print_growth(soaked), _print_memory_at_rest(memory), _print_disk(disk))
    return all(are_met)


def _print_calls(soaked: Soaked) -> None:
    rows = [["tool", "calls", "p50 ms", "p95 ms", "p99 ms", "longest ms"]]
    for tool, taken in sorted(soaked.record.taken.items()):
        rows.append([tool, str(len(taken)), *(ms(value) for value in _percentiles(taken)), ms(max(taken))])
    print(
        f"\n{len(soaked.visitors)} clients for {soaked.seconds:.0f} s received {soaked.notifications} change "
        f"notifications; open pages received {soaked.page_changes} changes and visited Home {soaked.page_visits} times"
    )
    print_table(f"1. {soaked.record.calls} calls, {len(soaked.failed)} failed", rows)


def _percentiles(taken: Sequence[float]) -> list[float]:
    cuts = statistics.quantiles(taken, n=100) if len(taken) > 1 else [*taken] * 99
    return [cuts[percentile - 1] for percentile in PERCENTILES]


def _print_speed(soaked: Soaked, empty: Sequence[tuple[float, float]]) -> None:
    """The ratio is of the calls a second, and of the CPU of a call, over the mean of the two runs of the empty tool."""
    calls = soaked.record.calls
    rate, cpu = calls / soaked.seconds, soaked.cpu / calls
    empty_rate, empty_cpu = (statistics.fmean(figures) for figures in zip(*empty, strict=True))
    servers = [
        ("Memory MCP, all families", rate, cpu),
        *((f"empty tool, {when}", *figures) for when, figures in zip(("before", "after"), empty, strict=True)),
    ]
    rows = [["server", "calls per s", "ratio", "CPU ms a call", "ratio"]]
    for name, its_rate, its_cpu in servers:
        figures = (f"{its_rate:.0f}", f"{its_rate / empty_rate:.2f}", ms(its_cpu), f"{its_cpu / empty_cpu:.2f}")
        rows.append([name, *figures])
    print_table("2. Calls a second, next to an empty tool on the same SDK", rows)


def _print_kept(soaked: Soaked, found: ReadBack, synced: int) -> None:
    rows = [["family", "writes acknowledged", "things written", "there, as last written"]]
    for family in ("vault", "notes", "stores", "graph", "portals"):
        acknowledged = sum(visitor.kept.acknowledged[family] for visitor in soaked.visitors)
        things = sum(len(getattr(visitor.kept, family)) for visitor in soaked.visitors)
        rows.append([family, str(acknowledged), str(things), str(found.there[family])])
    print_table(f"3. Read back through a new server: {len(found.lost)} lost or wrong", rows)
    print(f"  in {found.seconds:.0f} s, of which the server computed {found.cpu:.0f} s")
    print(f"  {synced} notes of the local user are on a second node, as last written")


def _print_growth(soaked: Soaked) -> bool:
    third = len(soaked.samples) // 3
    if not third:
        print("\n4. The run was too short to measure growth")
        return True
    thirds = [soaked.samples[number * third : (number + 1) * third] for number in range(3)]
    figures: list[tuple[str, Callable[[Sample], float], bool]] = [
        ("MB of memory, server", lambda sample: sample.server_bytes / MB, False),
        ("MB of memory, engines", lambda sample: sample.engine_bytes / MB, True),
        ("open handles", lambda sample: float(sample.handles), True),
    ]
    rows, is_flat = [["", "first third", "middle", "last", "growth", "goal", ""]], True
    for name, value, has_goal in figures:
        first, middle, last = (statistics.median(map(value, part)) for part in thirds)
        growth = last / middle - 1 if middle else 0.0
        is_met = growth <= MAX_GROWTH or not has_goal
        is_flat = is_flat and is_met
        goal = (f"<= {MAX_GROWTH:.0%}", "met" if is_met else "missed") if has_goal else ("see 5", "")
        rows.append([name, f"{first:.0f}", f"{middle:.0f}", f"{last:.0f}", f"{growth:+.1%}", *goal])
    print_table("4. Medians of each third of the time; growth is that of the last over the middle", rows)
    return is_flat


def _print_memory_at_rest(memory: MemoryAtRest) -> bool:
    """Caches grow with the data; so a server that has worked for long is held to one that has the same data."""
    ratio = memory.after_run / memory.new_server
    is_met = ratio <= MAX_MEMORY_RATIO
    rows = [
        ["server", "MB", "ratio", "goal", ""],
        [
            *("after the run", f"{memory.after_run / MB:.0f}", f"{ratio:.2f}"),
            *(f"<= {MAX_MEMORY_RATIO:.2f}", "met" if is_met else "missed"),
        ],
        [
            f"new, {memory.new_server_s:.0f} s of the same work, everything read back",
            *(f"{memory.new_server / MB:.0f}", "1.00", "", ""),
        ],
    ]
    print_table(f"5. Memory of servers on the same data, after {REST_S:.0f} s without a client", rows)
    return is_met


def _print_disk(disk: DiskAtRest) -> bool:
    """Whether nothing is on the disk but memories and their history."""
    run, new = disk.after_run, disk.new_directory
    ratio = run.without_history / new.without_history
    history = run.history / max(1, disk.writes)
    is_met = ratio <= MAX_DISK_RATIO and history <= MAX_HISTORY_BYTES
    rows = [["", "MB after the run", "MB of a new directory", "ratio", "goal", ""]]
    for kind in sorted(run.kinds.keys() | new.kinds.keys(), key=lambda kind: -run.kinds.get(kind, 0)):
        if max(run.kinds.get(kind, 0), new.kinds.get(kind, 0)) >= MIN_SHOWN_BYTES:
            rows.append([kind, *_both(run.kinds.get(kind, 0), new.kinds.get(kind, 0)), "", ""])
    rows.append(["history, part of these", *_both(run.history, new.history)[:2], "", "", ""])
    goal = (f"<= {MAX_DISK_RATIO:.2f}", "met" if ratio <= MAX_DISK_RATIO else "missed")
    rows.append(["all but history", *_both(run.without_history, new.without_history), *goal])
    print_table("6. Disk at rest, next to a new data directory with the same memories", rows)
    print(
        f"  a write took {run.total / max(1, disk.writes) / 1000:.2f} kB; {history / 1000:.2f} of them are history "
        f"(goal: <= {MAX_HISTORY_BYTES / 1000:.2f}, {'met' if history <= MAX_HISTORY_BYTES else 'missed'})"
    )
    return is_met


def _both(run: int, new: int) -> tuple[str, str, str]:
    return f"{run / MB:.2f}", f"{new / MB:.2f}", f"{run / new:.2f}" if new else ""


def chart(soaked: Soaked) -> str:
    """An SVG: percentiles of all calls, over the time of the run."""
    intervals: list[list[float]] = [[] for _ in range(INTERVALS)]
    for at, taken, _ in soaked.record.timeline:
        intervals[min(INTERVALS - 1, int(at / soaked.seconds * INTERVALS))].append(taken)
    points = [_percentiles(one) if one else [0.0] * len(PERCENTILES) for one in intervals]
    top = max(max(values) for values in points) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{TOP + HEIGHT + 40}" '
        f'viewBox="0 0 {LEFT + WIDTH + 60} {TOP + HEIGHT + 40}" role="img" aria-labelledby="title">',
        '  <title id="title">Latency of calls over the time of make soak</title>',
        f"  <style>\n{STYLE}\n    polyline {{ fill: none; stroke: #1a7f64; stroke-width: 2 }}\n  </style>",
        f'  <text x="0" y="18" class="title">{len(soaked.visitors)} clients at once: milliseconds of a call</text>',
        f'  <text x="0" y="38" class="small">make soak, {soaked.record.calls:,} calls in {soaked.seconds:.0f} s</text>',
    ]
    for number, percentile in enumerate(PERCENTILES):
        line = [
            (LEFT + WIDTH * (place + 0.5) / INTERVALS, TOP + HEIGHT * (1 - values[number] / top))
            for place, values in enumerate(points)
        ]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        parts.append(f'  <polyline points="{drawn}" opacity="{1 - 0.3 * number:.1f}"/>')
        parts.append(f'  <text x="{LEFT + WIDTH + 6}" y="{line[-1][1] + 4:.1f}" class="small">p{percentile}</text>')
    for share in (0.0, 0.5, 1.0):
        y = TOP + HEIGHT * (1 - share)
        parts.append(f'  <text x="0" y="{y + 4:.1f}" class="small">{top * share * 1000:,.0f}</text>')
        x = LEFT + WIDTH * share
        minutes = f"{soaked.seconds * share / 60:.0f} min"
        parts.append(f'  <text x="{x:.0f}" y="{TOP + HEIGHT + 24}" class="small">{minutes}</text>')
    return "\n".join([*parts, "</svg>", ""])
