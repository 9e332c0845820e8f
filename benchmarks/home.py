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
    size = QUICK if parser.parse_args().quick else Size()
    print(introduction())
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-") as folder, ExitStack() as servers:
        clients = {}
        for count in size.counts:
            data_dir = Path(folder) / str(count)
            seeded.notes_file(data_dir / "notes.db", count)
            clients[count] = servers.enter_context(serving(data_dir))
        is_met = measure(size, clients)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not is_met:
        raise SystemExit(1)


@contextmanager
def serving(data_dir: Path) -> Iterator[httpx.Client]:
    command = [sys.executable, "-m", "memory_mcp", "--transport", "http", "--port", "0", "--data-dir", str(data_dir)]
    flags = ["--auth", "none", "--embedder", "none"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            address = next(
                found[0] for line in cast(IO[str], process.stdout) if (found := re.search(r"http://\S+?:\d+", line))
            )
            with httpx.Client(base_url=address, timeout=60, transport=httpx.HTTPTransport(retries=20)) as client:
                yield client
        finally:
            process.terminate()


def measure(size: Size, clients: dict[int, httpx.Client]) -> bool:
    timed = {(count, name): Timed() for count in clients for name in REQUESTS}
    for turn in range(size.calls + 1):
        for (count, name), times in timed.items():
            if turn:
                times.run(lambda count=count, name=name: ask(clients[count], name))  # type: ignore[misc]
            else:
                ask(clients[count], name)  # the first opens files
    fewest = min(clients)
    rows = [("notes", "request", "p50 ms", "ratio", "p95 ms")]
    for (count, name), times in timed.items():
        rows.append((str(count), name, ms(times.p50), f"{times.p50 / timed[fewest, name].p50:.2f}", ms(times.p95)))
    print_table(f"Requests of Home, {size.calls} of each; ratios over {fewest} notes", rows)
    whole = {count: sum(timed[count, name].p50 for name in HOME) for count in clients}
    ratio = whole[max(clients)] / whole[fewest]
    verdict = "met" if ratio <= GOAL else "missed"
    print(f"\nAll of Home with {max(clients)} notes over {fewest}: {ratio:.2f}, goal <= {GOAL}  {verdict}")
    return ratio <= GOAL


def ask(client: httpx.Client, name: str) -> None:
    client.get(REQUESTS[name]).raise_for_status()


if __name__ == "__main__":
    main()
