"""Many clients for a long time: `make soak`.

Clients of two users read and write in all five families at once, on one server process: over HTTP with and without a
handshake, and over stdio. Pages of the web app are open meanwhile, and the local user's notes sync with a hub. Nothing
may fail, nothing that was acknowledged may be missing when a new server, and a second node, look for it, and memory,
handles and disk must not grow beyond the data. How many calls that makes a second stands next to the same clients on an
empty tool, before and after.
"""

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from benchmarks import empty_server
from benchmarks.figures import introduction, load
from benchmarks.soak import disk, report
from benchmarks.soak.servers import (
    NAMESPACE,
    Sample,
    Server,
    run_json,
    running,
    running_hub,
    serve_command,
    sync_now,
)
from benchmarks.soak.stdio_client import StdioClient
from benchmarks.soak.visitors import PORTAL, PROJECT, SEED, STORE, TABLE, AnyClient, Record, Visitor, Wrong
from benchmarks.soak.web_page import WebPage
from benchmarks.streamable import CallFailed, Client
from benchmarks.texts import Texts

HTTP_CLIENTS, STDIO_CLIENTS, PAGES = 56, 8, 4
READERS = 16  # that read everything back, at once
LEGACY_EVERY = 8  # one HTTP client in so many shakes hands
SECONDS = 1800.0
AGAIN_SHARE, MIN_AGAIN_S = 0.05, 30.0  # of the time, for the same work on a new server
LOCAL, OTHER = USERS = ("local", "ann")
EMPTY = [sys.executable, "-m", "benchmarks.empty_http"]


@dataclass(frozen=True)
class WorkTexts:
    """What clients write and ask."""

    contents: Sequence[str]
    questions: Sequence[str]


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    print(introduction(), flush=True)
    with tempfile.TemporaryDirectory(prefix="memory-mcp-soak-", dir=options.dir, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data_dir, log = folder / "data", folder / "log"
        keys = make_keys(data_dir)
        short = max(3.0, options.seconds / 20)
        empty = [_measure_empty(log, short)]
        with running_hub(folder / "hub", log) as hub:
            hub.link(data_dir)
            with running(serve_command(data_dir), log) as server:
                soaked = asyncio.run(soak(server, data_dir, keys, options.seconds))
                resting, kinds = server.memory_at_rest(), disk.kinds(data_dir)
            after_run = disk.AtRest(kinds, disk.history_bytes(data_dir))
            new_directory = fill_new_directory(data_dir, folder / "new", folder, log)
            at_rest = disk.DiskAtRest(after_run, new_directory, soaked.writes)
            empty.append(_measure_empty(log, short))
            with running(serve_command(data_dir), log) as server:
                again = max(MIN_AGAIN_S, options.seconds * AGAIN_SHARE)
                failed = asyncio.run(work_again(server, data_dir, keys, soaked.visitors, again))
                found = asyncio.run(look_again(server, keys, soaked.visitors))
                memory = report.MemoryAtRest(resting, server.memory_at_rest(), again)
            hub.link(folder / "second")
            synced, unsynced = compare_nodes(data_dir, folder / "second", soaked.visitors)
        complaints = report.complaints(log)
    has_met_goals = report.print_run(soaked, empty, found, synced, memory, at_rest)
    failures = {
        "Failed": [*soaked.failed, *failed],
        "Lost": found.lost,
        "Not synced": unsynced,
        "The server's log": complaints,
    }
    report.print_failures(failures)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if options.chart:
        report.CHART.write_text(report.chart(soaked), encoding="utf-8")
    if any(failures.values()) or not has_met_goals:
        sys.exit(1)


def fill_new_directory(data_dir: Path, new_directory: Path, scratch: Path, log: Path) -> disk.AtRest:
    """Fill a new data directory with the memories of another. Returns what it takes on the disk at rest."""
    keys = make_keys(new_directory)
    disk.copy_memories(data_dir, new_directory, scratch, USERS)
    with running(serve_command(new_directory), log) as server:
        asyncio.run(search_once(server, keys))
        disk.wait_for_vectors(new_directory)
        server.memory_at_rest()
        kinds = disk.kinds(new_directory)
    return disk.AtRest(kinds, disk.history_bytes(new_directory))


async def search_once(server: Server, keys: dict[str, str]) -> None:
    """Search every family of every user: some indexes are filled by the first search."""
    texts = make_work_texts()
    async with connected(server, keys, len(USERS)) as clients:
        for visitor in make_visitors(clients, [], texts):
            await visitor.search_everything()


def make_keys(data_dir: Path) -> dict[str, str]:
    for user in USERS[1:]:
        run_json("users", "add", user, data_dir=data_dir)
    return {
        user: str(run_json("keys", "create", "--user", user, "--name", "soak", data_dir=data_dir)["key"])
        for user in USERS
    }


@asynccontextmanager
async def connected(server: Server, keys: dict[str, str] | None, count: int) -> AsyncIterator[list[Client]]:
    """HTTP clients, in turn of each user."""
    clients = []
    for number in range(count):
        key = keys[USERS[number % len(USERS)]] if keys else None
        clients.append(Client(server.port, f"soak-{number}", key, legacy=number % LEGACY_EVERY >= LEGACY_EVERY - 1))
    await asyncio.gather(*(client.open() for client in clients))
    try:
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))


@asynccontextmanager
async def connected_over_stdio(data_dir: Path) -> AsyncIterator[list[StdioClient]]:
    """Clients of the local user."""
    clients = [StdioClient(data_dir, f"soak-stdio-{number}") for number in range(STDIO_CLIENTS)]
    await asyncio.gather(*(client.open() for client in clients))
    try:
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))


@asynccontextmanager
async def opened_pages(server: Server, data_dir: Path) -> AsyncIterator[list[WebPage]]:
    pages = [WebPage(server.port, data_dir, USERS[number % len(USERS)]) for number in range(PAGES)]
    await asyncio.gather(*(page.open() for page in pages))
    try:
        yield pages
    finally:
        await asyncio.gather(*(page.close() for page in pages))


async def soak(server: Server, data_dir: Path, keys: dict[str, str], seconds: float) -> report.Soaked:
    samples: list[Sample] = []
    texts = make_work_texts()  # takes seconds, while no client answers: before any is connected
    async with (
        connected(server, keys, HTTP_CLIENTS) as http_clients,
        connected_over_stdio(data_dir) as stdio_clients,
        opened_pages(server, data_dir) as pages,
    ):
        await prepare(http_clients)
        visitors = make_visitors(http_clients, stdio_clients, texts)
        watching = asyncio.create_task(watch(server, samples))
        cpu, begun = server.cpu(), time.perf_counter()
        record = await work(visitors, seconds)
        taken, cpu = time.perf_counter() - begun, server.cpu() - cpu
        watching.cancel()
        return report.Soaked(
            record,
            taken,
            cpu,
            samples,
            visitors,
            notifications=sum(visitor.client.notifications for visitor in visitors),
            page_changes=sum(page.changes for page in pages),
            page_visits=sum(page.visits for page in pages),
            failed=[*record.failed, *(line for page in pages for line in page.failed)],
        )


async def work_again(
    server: Server, data_dir: Path, keys: dict[str, str], visitors: Sequence[Visitor], seconds: float
) -> list[str]:
    """The same work by the same clients on a new server, which then has as many connections, threads and caches as the
    former one had. Returns what failed."""
    async with (
        connected(server, keys, HTTP_CLIENTS) as http_clients,
        connected_over_stdio(data_dir) as stdio_clients,
        opened_pages(server, data_dir) as pages,
    ):
        clients: list[AnyClient] = [*http_clients, *stdio_clients]
        for visitor, client in zip(visitors, clients, strict=True):
            visitor.client = client
        record = await work(visitors, seconds)
        return [*record.failed, *(line for page in pages for line in page.failed)]


async def prepare(clients: Sequence[Client]) -> None:
    """The project and the tables that all clients of a user share."""
    row = {"id": "first", "client": -1, "content": "first"}
    for client in clients[: len(USERS)]:
        await client.call("create_project", {"name": PROJECT})
        await client.call("add_memory", {"store": STORE, "path": "first", "content": "first"})
        await client.call("portal_write", {"portalUri": PORTAL, "table": TABLE, "data": [row]})


def make_work_texts() -> WorkTexts:
    texts = Texts(SEED)
    return WorkTexts([memory.content for memory in texts.memories(2000)], list(texts.questions(500)))


def make_visitors(
    http_clients: Sequence[Client], stdio_clients: Sequence[StdioClient], texts: WorkTexts
) -> list[Visitor]:
    users: list[tuple[AnyClient, str]] = [
        *((client, USERS[number % len(USERS)]) for number, client in enumerate(http_clients)),
        *((client, LOCAL) for client in stdio_clients),
    ]
    counted: Counter[str] = Counter()
    visitors = []
    for client, user in users:
        visitors.append(Visitor(client, user, counted[user], texts.contents, texts.questions))
        counted[user] += 1
    return visitors


async def work(visitors: Sequence[Visitor], seconds: float) -> Record:
    record = Record()

    async def visit(visitor: Visitor) -> None:
        while (started := time.perf_counter()) < end:
            try:
                tool = await visitor.act()
            except (CallFailed, Wrong) as exc:
                record.failed.append(f"after {started - begun:.0f} s: {exc}")
            else:
                record.add(tool, started - begun, time.perf_counter() - started)

    begun = time.perf_counter()
    end = begun + seconds
    await asyncio.gather(*map(visit, visitors))
    return record


async def watch(server: Server, samples: list[Sample]) -> None:
    while True:
        await asyncio.sleep(1)
        samples.append(await asyncio.to_thread(server.sample))


async def read_back(visitor: Visitor) -> tuple[Counter[str], list[str]]:
    """How many things of each family are there as they were acknowledged, and what is not."""
    there: Counter[str] = Counter()
    lost: list[str] = []
    for family, count, check in visitor.checks():
        try:
            await check()
        except (CallFailed, Wrong) as exc:
            lost.append(f"{family}: {exc}")
        else:
            there[family] += count
    return there, lost


async def look_again(server: Server, keys: dict[str, str], visitors: Sequence[Visitor]) -> report.ReadBack:
    """Every client of a user, over stdio or not, reads back over HTTP: one reader reads what one client has
    written, one item after another."""
    there: Counter[str] = Counter()
    lost: list[str] = []

    async def read_share(reader: Client, share: Sequence[Visitor]) -> None:
        for visitor in share:
            visitor.client = reader
            found, missing = await read_back(visitor)
            there.update(found)
            lost.extend(missing)

    async with connected(server, keys, READERS) as readers:
        shares: list[list[Visitor]] = [[] for _ in readers]
        for user_number, user in enumerate(USERS):
            of_user = [visitor for visitor in visitors if visitor.user == user]
            of_readers = range(user_number, READERS, len(USERS))
            for visitor, reader_number in zip(of_user, itertools.cycle(of_readers), strict=False):
                shares[reader_number].append(visitor)
        cpu, begun = server.cpu(), time.perf_counter()
        await asyncio.gather(*map(read_share, readers, shares))
        return report.ReadBack(there, lost, time.perf_counter() - begun, server.cpu() - cpu)


def compare_nodes(data_dir: Path, second: Path, visitors: Sequence[Visitor]) -> tuple[int, list[str]]:
    """How many notes of the local user a second node has as they were acknowledged, and which it has not."""
    sync_now(data_dir)
    sync_now(second)
    with closing(apsw.Connection(str(second / "notes.db"))) as connection:
        found = dict(connection.execute("SELECT id, content FROM notes WHERE namespace = ?", (NAMESPACE,)))
    expected = {
        id_: content for visitor in visitors if visitor.user == LOCAL for id_, content in visitor.kept.notes.items()
    }
    missing = [f"note {id_}" for id_, content in expected.items() if found.get(id_) != content]
    return len(expected) - len(missing), missing


async def call_nothing(server: Server, seconds: float) -> tuple[Record, float]:
    """As many clients, on a tool that does nothing. The record, and how long it took."""
    record = Record()

    async def call(client: Client) -> None:
        while (started := time.perf_counter()) < end:
            await client.call(empty_server.TOOL, {})
            record.add(empty_server.TOOL, started - begun, time.perf_counter() - started)

    async with connected(server, None, HTTP_CLIENTS + STDIO_CLIENTS) as clients:
        begun = time.perf_counter()
        end = begun + seconds
        await asyncio.gather(*map(call, clients))
        return record, time.perf_counter() - begun


def _measure_empty(log: Path, seconds: float) -> tuple[float, float]:
    """Calls a second, and seconds of the server's CPU for each."""
    with running(EMPTY, log) as server:
        asyncio.run(call_nothing(server, min(1.0, seconds)))  # to warm up
        cpu = server.cpu()
        record, taken = asyncio.run(call_nothing(server, seconds))
        return record.calls / taken, (server.cpu() - cpu) / record.calls


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    seconds = float(os.environ.get("SOAK_SECONDS") or SECONDS)
    parser.add_argument("--seconds", type=float, default=seconds, help="how long [SOAK_SECONDS]")
    parser.add_argument("--dir", type=Path, help="where to put the data, such as another disk")
    parser.add_argument("--chart", action="store_true", help="draw the chart in docs/pictures again")
    return parser.parse_args()


if __name__ == "__main__":
    main()
