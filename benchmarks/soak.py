"""Many clients for a long time: `make soak`.

64 clients of two users read and write in all five families at once, over HTTP, on one server process. Nothing may fail,
nothing that was acknowledged may be missing when a new server looks for it, and memory must not grow. How many calls
that makes a second stands next to the same clients on an empty tool, before and after.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from benchmarks import empty_server
from benchmarks.figures import introduction, load, ms, print_table
from benchmarks.soak_visitors import PORTAL, PROJECT, SEED, STORE, TABLE, Record, Visitor, Wrong
from benchmarks.streamable import CallFailed, Client
from benchmarks.texts import Texts

CLIENTS = 64
LEGACY_EVERY = 8  # one client in so many shakes hands
MAX_GROWTH = 0.10  # of the memory in the last third of the time, over that in the middle third; the data grows as well
SECONDS = 300.0
USERS = ("local", "ann")
SHOWN = 5  # of the errors


class Server:
    """A server process and the engines it started."""

    def __init__(self, process: subprocess.Popen[str], port: int, data_dir: Path | None) -> None:
        self.port = port
        self._process = process
        self._data_dir = data_dir

    def cpu(self) -> float:
        """Seconds of CPU the server has used, without engines. Linux only."""
        return time.clock_gettime(~self._process.pid << 3 | 2)

    def memory(self) -> tuple[int, int]:
        """Bytes of RAM that the server and its engines hold. Linux only."""
        return _resident(self._process.pid), sum(map(_resident, self._engines()))

    def _engines(self) -> Iterator[int]:
        """All processes that this server started, and that they started: engines, and readers of foreign files."""
        children: dict[int, list[int]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ValueError):
                parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(path.parent.name))
        found = [*children.get(self._process.pid, [])]
        for pid in found:  # grows as it goes
            found += children.get(pid, [])
        yield from found


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


@contextmanager
def serving(command: Sequence[str], log: Path, data_dir: Path | None = None) -> Iterator[Server]:
    """Start it, and stop it as an operator does. Raises RuntimeError if it does not end by itself, in order."""
    with log.open("ab") as stderr:
        environ = os.environ | {"MEMORY_MCP_PORTAL_ENGINE_IDLE": "5"}  # so that those who read back get new engines too
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environ, encoding="utf-8")
    try:
        output = cast(IO[str], process.stdout)
        found = next((found for line in output if (found := re.search(r"http://[\d.]+:(\d+)", line))), None)
        if found is None:
            raise RuntimeError(f"The server does not start: {log.read_text(encoding='utf-8')}")
        yield Server(process, int(found[1]), data_dir)
        process.terminate()
        if process.wait(timeout=60) not in (0, -15):
            raise RuntimeError(f"The server ended with {process.returncode}.")
    finally:
        process.kill()
        process.wait()
        cast(IO[str], process.stdout).close()


def memory_mcp(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "memory_mcp", *arguments]


def ours(data_dir: Path) -> list[str]:
    return memory_mcp("serve", "--transport", "http", "--port", "0", "--data-dir", str(data_dir))


EMPTY = [sys.executable, "-m", "benchmarks.empty_http"]


def make_keys(data_dir: Path) -> dict[str, str]:
    def run(*arguments: str) -> dict[str, Any]:
        command = memory_mcp(*arguments, "--data-dir", str(data_dir), "--json")
        answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return answer

    for user in USERS[1:]:
        run("users", "add", user)
    return {user: run("keys", "create", "--user", user, "--name", "soak")["key"] for user in USERS}


@asynccontextmanager
async def connected(server: Server, keys: dict[str, str] | None = None) -> AsyncIterator[list[Client]]:
    clients = []
    for number in range(CLIENTS):
        key = keys[USERS[number % len(USERS)]] if keys else None
        clients.append(Client(server.port, f"soak-{number}", key, legacy=number % LEGACY_EVERY >= LEGACY_EVERY - 1))
    await asyncio.gather(*(client.open() for client in clients))
    try:
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def nothing(server: Server, seconds: float) -> tuple[Record, float]:
    """The same clients, on a tool that does nothing. The record, and how long it took."""
    record = Record()

    async def call(client: Client) -> None:
        while time.perf_counter() < end:
            started = time.perf_counter()
            await client.call(empty_server.TOOL, {})
            record.taken[empty_server.TOOL].append(time.perf_counter() - started)

    async with connected(server) as clients:
        begun = time.perf_counter()
        end = begun + seconds
        await asyncio.gather(*map(call, clients))
        return record, time.perf_counter() - begun


async def prepare(clients: list[Client]) -> None:
    """The project and the tables that all clients of a user share."""
    row = {"id": "first", "client": -1, "content": "first"}
    for client in clients[: len(USERS)]:
        await client.call("create_project", {"name": PROJECT})
        await client.call("add_memory", {"store": STORE, "path": "first", "content": "first"})
        await client.call("portal_write", {"portalUri": PORTAL, "table": TABLE, "data": [row]})


async def work(visitors: list[Visitor], seconds: float) -> Record:
    record = Record()

    async def visit(visitor: Visitor) -> None:
        while time.perf_counter() < end:
            started = time.perf_counter()
            try:
                tool = await visitor.act()
            except (CallFailed, Wrong) as exc:
                record.failed.append(f"after {started - begun:.0f} s: {exc}")
            else:
                record.taken[tool].append(time.perf_counter() - started)

    begun = time.perf_counter()
    end = begun + seconds
    await asyncio.gather(*map(visit, visitors))
    return record


async def watch(server: Server, samples: list[tuple[int, int]]) -> None:
    while True:
        await asyncio.sleep(1)
        samples.append(await asyncio.to_thread(server.memory))


async def read_back(visitors: list[Visitor]) -> tuple[Counter[str], list[str]]:
    """How many things of each family are there as they were acknowledged, and what is not."""
    there: Counter[str] = Counter()
    lost: list[str] = []

    async def look(visitor: Visitor) -> None:
        for family, count, check in visitor.checks():
            try:
                await check()
            except (CallFailed, Wrong) as exc:
                lost.append(f"{family}: {exc}")
            else:
                there[family] += count

    await asyncio.gather(*map(look, visitors))
    return there, lost


@dataclass
class Soaked:
    record: Record
    seconds: float
    cpu: float
    samples: list[tuple[int, int]]
    visitors: list[Visitor]
    notifications: int


async def soak(server: Server, keys: dict[str, str], seconds: float) -> Soaked:
    texts = Texts(SEED)
    contents = [memory.content for memory in texts.memories(2000)]
    questions = texts.questions(500)
    samples: list[tuple[int, int]] = []
    async with connected(server, keys) as clients:
        await prepare(clients)
        visitors = [
            Visitor(client, USERS[number % len(USERS)], number // len(USERS), contents, questions)
            for number, client in enumerate(clients)
        ]
        watching = asyncio.create_task(watch(server, samples))
        cpu, begun = server.cpu(), time.perf_counter()
        record = await work(visitors, seconds)
        taken, cpu = time.perf_counter() - begun, server.cpu() - cpu
        watching.cancel()
        return Soaked(record, taken, cpu, samples, visitors, sum(client.notifications for client in clients))


async def look_again(server: Server, keys: dict[str, str], visitors: list[Visitor]) -> tuple[Counter[str], list[str]]:
    async with connected(server, keys) as clients:
        for visitor, client in zip(visitors, clients, strict=True):
            visitor.client = client
        return await read_back(visitors)


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    print(introduction(), flush=True)
    with tempfile.TemporaryDirectory(prefix="memory-mcp-soak-", dir=options.dir, ignore_cleanup_errors=True) as folder:
        data_dir, log = Path(folder) / "data", Path(folder) / "log"
        keys = make_keys(data_dir)
        short = max(3.0, options.seconds / 20)
        empty = [_measure_empty(log, short)]
        with serving(ours(data_dir), log, data_dir) as server:
            soaked = asyncio.run(soak(server, keys, options.seconds))
        empty.append(_measure_empty(log, short))
        with serving(ours(data_dir), log, data_dir) as server:
            there, lost = asyncio.run(look_again(server, keys, soaked.visitors))
        complaints = _complaints(log)
    _print_calls(soaked)
    _print_speed(soaked, empty)
    _print_kept(soaked, there, lost)
    is_flat = _print_memory(soaked)
    for title, lines in (("Failed", soaked.record.failed), ("Lost", lost), ("The server's log", complaints)):
        if lines:
            print(f"\n{title} ({len(lines)}):", *lines[:SHOWN], sep="\n  ")
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if soaked.record.failed or lost or complaints or not is_flat:
        sys.exit(1)


def _measure_empty(log: Path, seconds: float) -> tuple[float, float]:
    """Calls a second, and seconds of the server's CPU for each."""
    with serving(EMPTY, log) as server:
        asyncio.run(nothing(server, min(1.0, seconds)))  # to warm up
        cpu = server.cpu()
        record, taken = asyncio.run(nothing(server, seconds))
        return record.calls / taken, (server.cpu() - cpu) / record.calls


def _complaints(log: Path) -> list[str]:
    """Unexpected lines of the servers' logs, with their exceptions."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if re.search(r"warning|error|exception|traceback", line, re.IGNORECASE)]


def _print_calls(soaked: Soaked) -> None:
    rows = [["tool", "calls", "p50 ms", "p95 ms", "p99 ms", "longest ms"]]
    for tool, taken in sorted(soaked.record.taken.items()):
        cuts = statistics.quantiles(taken, n=100) if len(taken) > 1 else taken * 99
        rows.append([tool, str(len(taken)), *(ms(cuts[cut - 1]) for cut in (50, 95, 99)), ms(max(taken))])
    failed = len(soaked.record.failed)
    print(
        f"\n{CLIENTS} clients of {len(USERS)} users for {soaked.seconds:.0f} s, {CLIENTS // LEGACY_EVERY} of them with "
        f"a handshake and a stream, which received {soaked.notifications} change notifications"
    )
    print_table(f"1. {soaked.record.calls} calls, {failed} failed", rows)


def _print_speed(soaked: Soaked, empty: list[tuple[float, float]]) -> None:
    """The ratio is of the calls a second, and of the CPU of a call, over the mean of the two runs of the empty tool."""
    calls = soaked.record.calls
    rate, cpu = calls / soaked.seconds, soaked.cpu / calls
    empty_rate, empty_cpu = (statistics.fmean(figures) for figures in zip(*empty, strict=True))
    rows = [
        ["server", "calls per s", "ratio", "CPU ms a call", "ratio"],
        ["Memory MCP, all families", f"{rate:.0f}", f"{rate / empty_rate:.2f}", ms(cpu), f"{cpu / empty_cpu:.2f}"],
        *(
            [f"empty tool, {when}", f"{rate:.0f}", f"{rate / empty_rate:.2f}", ms(cpu), f"{cpu / empty_cpu:.2f}"]
            for when, (rate, cpu) in zip(("before", "after"), empty, strict=True)
        ),
    ]
    print_table("2. Calls a second, next to an empty tool on the same SDK", rows)


def _print_kept(soaked: Soaked, there: Counter[str], lost: list[str]) -> None:
    rows = [["family", "writes acknowledged", "things written", "there, as last written"]]
    for family in ("vault", "notes", "stores", "graph", "portals"):
        acknowledged = sum(visitor.kept.acknowledged[family] for visitor in soaked.visitors)
        things = sum(len(getattr(visitor.kept, family)) for visitor in soaked.visitors)
        rows.append([family, str(acknowledged), str(things), str(there[family])])
    print_table(f"3. Read back through a new server: {len(lost)} lost or wrong", rows)


def _print_memory(soaked: Soaked) -> bool:
    """Whether it stays where it is."""
    third = len(soaked.samples) // 3
    if not third:
        print("\n4. Memory: the run was too short to measure its growth")
        return True
    columns = {
        "server": [server for server, _ in soaked.samples],
        "engines": [engines for _, engines in soaked.samples],
    }
    rows = [["MB", "first third", "middle", "last", "most", "kB a call", "growth", "goal", ""]]
    is_flat = True
    for name, sizes in columns.items():
        first, middle, last = (statistics.median(sizes[part * third : (part + 1) * third]) for part in range(3))
        growth, each = last / middle - 1, (last - middle) / (soaked.record.calls / 3) / 1000
        is_flat = is_flat and growth <= MAX_GROWTH
        figures = [f"{size / 1e6:.0f}" for size in (first, middle, last, max(sizes))]
        goal = [f"<= {MAX_GROWTH:.0%}", "met" if growth <= MAX_GROWTH else "missed"]
        rows.append([name, *figures, f"{each:.1f}", f"{growth:+.1%}", *goal])
    print_table("4. Memory, medians of each third of the time; growth is that of the last over the middle", rows)
    return is_flat


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    seconds = float(os.environ.get("SOAK_SECONDS") or SECONDS)
    parser.add_argument("--seconds", type=float, default=seconds, help="how long [SOAK_SECONDS]")
    parser.add_argument("--dir", type=Path, help="where to put the data, such as another disk")
    return parser.parse_args()


if __name__ == "__main__":
    main()
