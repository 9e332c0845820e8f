"""What the web app's Home costs: `make bench-home`. Its requests, with few notes and with many, alternately.

For comparison, a request that does nothing (`/healthz`) shows the cost of HTTP itself.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import httpx

from benchmarks import seeded
from benchmarks.figures import Timed, introduction, load, ms, print_table

GOAL = 1.5  # times the p50 with the fewest notes, all of Home together
REQUESTS = {
    "overview": "/api/overview",
    "analytics": "/api/mcp/memory/analytics?days=30",
    "recent": "/api/recent?limit=30&text=true",
    "attention": "/api/notes/attention",
    "pairs": "/api/notes/pairs",
    "nothing": "/healthz",
}
HOME = ("overview", "analytics", "recent", "attention", "pairs")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    counts: tuple[int, ...] = (100, 10_000, 100_000)
    calls: int = 200


QUICK = Size(counts=(100, 2_000), calls=20)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-home ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few notes and few calls, to see that it runs")
    parser.add_argument("--counts", type=int, nargs="+", help="how many notes, instead of 100, 10,000 and 100,000")
    parser.add_argument("--calls", type=int, help="of each request, instead of 200")
    given = parser.parse_args()
    usual = QUICK if given.quick else Size()
    size = Size(tuple(given.counts or usual.counts), given.calls or usual.calls)
    print(introduction())
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-") as folder, ExitStack() as servers:
        running_servers = {}
        for count in size.counts:
            data_dir = Path(folder) / str(count)
            seeded.notes_file(data_dir / "notes.db", count)
            running_servers[count] = servers.enter_context(running(data_dir))
        is_met = measure(size, running_servers)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not is_met:
        raise SystemExit(1)


@dataclass
class TimedRequest(Timed):
    server_cpu: float = 0.0  # in seconds, of all calls


@dataclass(frozen=True)
class Server:
    client: httpx.Client
    pid: int

    def cpu_s(self) -> float:
        """Of all its threads. What clock_getcpuclockid(3) returns: nanoseconds, where /proc/PID/stat counts in
        hundredths of a second."""
        return time.clock_gettime(~self.pid << 3 | 2)


@contextmanager
def serving(data_dir: Path) -> Iterator[httpx.Client]:
    with running(data_dir) as server:
        yield server.client


@contextmanager
def running(data_dir: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "memory_mcp", "--transport", "http", "--port", "0", "--data-dir", str(data_dir)]
    flags = ["--auth", "none", "--embedder", "none"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            address = next(
                found[0] for line in cast(IO[str], process.stdout) if (found := re.search(r"http://\S+?:\d+", line))
            )
            with httpx.Client(base_url=address, timeout=60, transport=httpx.HTTPTransport(retries=20)) as client:
                yield Server(client, process.pid)
        finally:
            process.terminate()


def measure(size: Size, servers: dict[int, Server]) -> bool:
    timed = {(count, name): TimedRequest() for count in servers for name in REQUESTS}
    for turn in range(size.calls + 1):
        for (count, name), times in timed.items():
            server, before = servers[count], servers[count].cpu_s()
            if turn:
                times.run(lambda server=server, name=name: ask(server.client, name))  # type: ignore[misc]
                times.server_cpu += server.cpu_s() - before
            else:
                ask(server.client, name)  # the first opens files
    fewest = min(servers)
    rows = [("notes", "request", "p50 ms", "ratio", "p95 ms", "server's cpu ms")]
    for (count, name), times in timed.items():
        ratio = f"{times.p50 / timed[fewest, name].p50:.2f}"
        cpu = ms(times.server_cpu / len(times.walls))
        rows.append((str(count), name, ms(times.p50), ratio, ms(times.p95), cpu))
    print_table(f"Requests of Home, {size.calls} of each; ratios over {fewest} notes", rows)
    whole = {count: sum(timed[count, name].p50 for name in HOME) for count in servers}
    growth = whole[max(servers)] / whole[fewest]
    verdict = "met" if growth <= GOAL else "missed"
    print(f"\nAll of Home with {max(servers)} notes over {fewest}: {growth:.2f}, goal <= {GOAL}  {verdict}")
    return growth <= GOAL


def ask(client: httpx.Client, name: str) -> None:
    client.get(REQUESTS[name]).raise_for_status()


if __name__ == "__main__":
    main()
