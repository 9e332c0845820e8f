"""Calls a second over HTTP, next to an empty tool on the same SDK and web server: a part of `make bench`."""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import empty_server
from benchmarks.figures import ms, print_table
from benchmarks.soak.servers import Server, run_json, running, serve_command
from benchmarks.streamable import Client

GOAL = 0.5  # of the empty tool's calls a second
CLIENTS = 16
LEGACY_EVERY = 2  # one client in so many shakes hands
EMPTY = [sys.executable, "-m", "benchmarks.empty_http"]

Request = tuple[str, dict[str, Any]]


class _Measured:
    """One tool of one server, over all rounds."""

    def __init__(self, server: Server, clients: list[Client], requests: Iterator[Request]) -> None:
        self._server = server
        self._clients = clients
        self._requests = requests
        self._calls = 0
        self._seconds = 0.0
        self._cpu = 0.0

    @property
    def rate(self) -> float:
        return self._calls / self._seconds

    @property
    def cpu_each(self) -> float:
        return self._cpu / self._calls

    async def run(self, calls: int) -> None:
        """Each client calls again as soon as it has its answer."""
        requests = iter(list(itertools.islice(self._requests, calls)))
        cpu, began = self._server.cpu(), time.perf_counter()
        await asyncio.gather(*(_call_all(client, requests) for client in self._clients))
        self._seconds += time.perf_counter() - began
        self._cpu += self._server.cpu() - cpu
        self._calls += calls

    def reset(self) -> None:
        """Discard what was measured until now."""
        self._calls, self._seconds, self._cpu = 0, 0.0, 0.0


async def _call_all(client: Client, requests: Iterator[Request]) -> None:
    for tool, arguments in requests:
        await client.call(tool, arguments)


def measure(data_dir: Path, requests: dict[str, Iterator[Request]], *, rounds: int, calls: int) -> None:
    """Print the calls a second of each kind of request."""
    log = data_dir.with_name("http.log")
    key = str(run_json("keys", "create", "--name", "bench", data_dir=data_dir)["key"])
    with ExitStack() as stack:
        empty = stack.enter_context(running(EMPTY, log))
        ours = stack.enter_context(running(serve_command(data_dir), log))
        measured = asyncio.run(_measure(empty, ours, key, requests, rounds, calls))
    nothing = measured.pop("")
    rows = [["tool", "calls per s", "empty", "ratio", "goal", "", "CPU ms", "ratio"]]
    for name, one in measured.items():
        ratio = one.rate / nothing.rate
        figures = [f"{one.rate:.0f}", f"{nothing.rate:.0f}", f"{ratio:.2f}", f">= {GOAL}"]
        cpu = [ms(one.cpu_each), f"{one.cpu_each / nothing.cpu_each:.2f}"]
        rows.append([name, *figures, "met" if ratio >= GOAL else "missed", *cpu])
    print_table(f"5. Calls a second over HTTP, of {CLIENTS} clients at once, next to an empty tool", rows)


async def _measure(
    empty: Server, ours: Server, key: str, requests: dict[str, Iterator[Request]], rounds: int, calls: int
) -> dict[str, _Measured]:
    """Of each kind of request, and of the empty tool under an empty name."""
    bare, full = await _connect_all(empty, None), await _connect_all(ours, key)
    measured = {name: _Measured(ours, full, wanted) for name, wanted in requests.items()}
    measured[""] = _Measured(empty, bare, itertools.repeat((empty_server.TOOL, {})))
    for one in measured.values():
        await one.run(calls)
        one.reset()
    for number in range(rounds):
        for one in list(measured.values())[:: 1 if number % 2 else -1]:
            await one.run(calls)
    for client in (*bare, *full):
        await client.close()
    return measured


async def _connect_all(server: Server, key: str | None) -> list[Client]:
    clients = [
        Client(server.port, f"bench-{number}", key, legacy=number % LEGACY_EVERY == 0) for number in range(CLIENTS)
    ]
    await asyncio.gather(*(client.open() for client in clients))
    return clients
