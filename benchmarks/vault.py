"""How fast the vault is: `make bench`. Every figure is measured alternately with a baseline."""

import argparse
import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import empty_server, http_calls
from benchmarks.figures import Timed, introduction, load, ms, print_table
from benchmarks.pipe import EMPTY, ServerProcess, memory_mcp
from benchmarks.texts import Texts
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.families.vault import schema, storage
from memory_mcp.families.vault.model import Range

SEARCH_GOAL = 1.5
COMMIT_GOAL = 2.0
START_GOAL = 1.3

PROCESSES = 8
THROUGHPUT_ROUNDS = 3
SEED = 1
SEEDED_TOGETHER = 500  # memories in one transaction: the index then has segments of many ages, as in real use


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    vault: int = 10_000  # memories of the vault that calls and starts are measured in
    growth: tuple[int, ...] = (1_000, 10_000, 100_000)
    rounds: int = 20
    calls: int = 40  # of each server in one round
    starts: int = 11
    commits: int = 400  # in one round of throughput
    http_rounds: int = 6
    http_calls: int = 400  # of each tool in one round


QUICK = Size(
    vault=1_000, growth=(500, 2_000, 8_000), rounds=5, calls=20, starts=7, commits=80, http_rounds=2, http_calls=100
)


Request = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""
NOTHING: Request = (empty_server.TOOL, {})
HEADINGS = ["case", "p50 ms", "empty", "ratio", "goal", "", "mean ms", "ratio", "CPU ms", "ratio"]


def main() -> None:
    options = _arguments()
    size = QUICK if options.quick else Size()
    started = time.monotonic()
    print(introduction())
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-", dir=options.dir) as folder:
        folders = {count: _seeded(Path(folder), count) for count in sorted({size.vault, *size.growth})}
        measure_calls(size, folders[size.vault])
        measure_starts(size, folders[size.vault])
        measure_processes(size, Path(folder))
        measure_growth(size, folders)
        measure_http(size, folders[size.vault])
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small vaults and few calls, to see that it runs")
    parser.add_argument("--dir", help="where the data directories go: durable writes are as fast as this disk")
    return parser.parse_args()


def measure_calls(size: Size, data_dir: Path) -> None:
    """1. What a call of the vault costs over a call of a tool that does nothing."""
    rows = [HEADINGS]
    requests = _searches(size.rounds * size.calls + size.calls)
    rows.append(_compared("search_memories", SEARCH_GOAL, *_alternate(size, memory_mcp(data_dir), requests)))
    for durability in ("full", "normal"):
        copy = data_dir.with_name(f"commit-{durability}")
        shutil.copytree(data_dir, copy)
        command = memory_mcp(copy, "--durability", durability)
        commits = _commits(size.rounds * size.calls + size.calls, f"{durability}-")
        rows.append(_compared(f"commit_memory, {durability}", COMMIT_GOAL, *_alternate(size, command, commits)))
    print_table(f"1. A call in a vault of {size.vault} memories, over an empty tool on the same SDK", rows)


def _alternate(size: Size, command: Sequence[str | Path], requests: Iterator[Request]) -> tuple[Timed, Timed]:
    """(empty, ours) over rounds in which now the one, now the other goes first."""
    nothing = itertools.repeat(NOTHING)
    with ServerProcess(EMPTY) as empty, ServerProcess(command) as ours:
        for server, calls in ((empty, nothing), (ours, requests)):
            server.shake_hands()
            _ask(server, calls, size.calls, Timed())  # warm up
        both = ((empty, nothing, Timed()), (ours, requests, Timed()))
        for number in range(size.rounds):
            for server, calls, timed in both if number % 2 else reversed(both):
                _ask(server, calls, size.calls, timed)
        return both[0][2], both[1][2]


def _ask(server: ServerProcess, requests: Iterator[Request], calls: int, into: Timed) -> None:
    cpu = server.cpu()
    for _ in range(calls):
        into.walls.append(server.call(*next(requests)))
    into.cpu += server.cpu() - cpu


def measure_starts(size: Size, data_dir: Path) -> None:
    """2. From the start of the process to its first answer, a call's, over the bare SDK's."""
    ours, empty = Timed(), Timed()
    searching = _searches(size.starts + 1)
    _start(memory_mcp(data_dir), next(searching), Timed())  # warm up: compiled files, the page cache
    for _ in range(size.starts):
        _start(EMPTY, NOTHING, empty)
        _start(memory_mcp(data_dir), next(searching), ours)
    rows = [HEADINGS, _compared("start, handshake, one search", START_GOAL, empty, ours)]
    print_table(f"2. Start to first answer, {size.vault} memories, {size.starts} starts", rows)


def _start(command: Sequence[str | Path], request: Request, into: Timed) -> None:
    started = time.perf_counter()
    with ServerProcess(command) as server:
        server.shake_hands()
        server.call(*request)
        into.walls.append(time.perf_counter() - started)
        into.cpu += server.cpu()


def measure_processes(size: Size, folder: Path) -> None:
    """3. Commits of eight processes on one data directory, over those of one alone; none lost, none refused."""
    timed = {1: Timed(), PROCESSES: Timed()}
    data_dirs = {count: folder / f"processes-{count}" for count in timed}
    seconds = dict.fromkeys(timed, 0.0)
    written: set[tuple[str, str]] = set()
    with ExitStack() as running:
        servers = {
            count: [running.enter_context(ServerProcess(memory_mcp(data_dir))) for _ in range(count)]
            for count, data_dir in data_dirs.items()
        }
        for server in itertools.chain(*servers.values()):
            server.shake_hands()
        for number, count in itertools.product(range(THROUGHPUT_ROUNDS), timed):
            prefixes = [f"{number}-{count}-{place}-" for place in range(count)]
            shares = [list(_commits(size.commits // count, prefix)) for prefix in prefixes]
            written |= {(memory["key"], memory["content"]) for share in shares for _, memory in share}
            seconds[count] += _together(servers[count], shares, timed[count])
    rate = {count: len(of.walls) / seconds[count] for count, of in timed.items()}
    rows = [["processes", "commits", "per second", "ratio", "p50 ms", "p95 ms", "longest ms"]]
    for count, of in timed.items():
        speed = [str(len(of.walls)), f"{rate[count]:.0f}", f"{rate[count] / rate[1]:.2f}"]
        rows.append([str(count), *speed, ms(of.p50), ms(of.p95), ms(max(of.walls))])
    print_table(f"3. Durable commits by {PROCESSES} processes on one data directory", rows)
    lost = written.difference(*map(_kept, data_dirs.values()))
    print(f"  {len(written)} memories written, {len(lost)} lost, no call refused")
    if lost:
        raise SystemExit(f"Lost: {sorted(lost)[:5]}")


def _together(servers: Sequence[ServerProcess], shares: Sequence[Sequence[Request]], into: Timed) -> float:
    """Each server gets its share from a thread of its own. The seconds until all are done."""
    done: list[float] = []

    def commit(server: ServerProcess, share: Sequence[Request]) -> None:
        done.extend([server.call(*request) for request in share])

    threads = [threading.Thread(target=commit, args=pair) for pair in zip(servers, shares, strict=True)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - started
    if len(done) != sum(map(len, shares)):
        raise SystemExit("A commit was refused; the error is above.")
    into.walls += done
    return taken


def _kept(data_dir: Path) -> set[tuple[str, str]]:
    with closing(_vault_file(data_dir)) as db, db.read() as tx:
        return {(memory.key, memory.content) for memory in storage.page(tx, "vault", "", Range(limit=-1))}


def measure_growth(size: Size, folders: dict[int, Path]) -> None:
    """4. The same requests in ever larger vaults."""
    timed = {count: Timed() for count in size.growth}
    requests = {count: _searches(size.rounds * size.calls + size.calls) for count in size.growth}
    with ExitStack() as running:
        servers = {count: running.enter_context(ServerProcess(memory_mcp(folders[count]))) for count in size.growth}
        for count, server in servers.items():
            server.shake_hands()
            _ask(server, requests[count], size.calls, Timed())
        for _ in range(size.rounds):
            for count, server in servers.items():
                _ask(server, requests[count], size.calls, timed[count])
    least = timed[size.growth[0]]
    rows = [["memories", "p50 ms", "ratio", "p95 ms", "ratio", "longest ms", "CPU ms", "ratio"]]
    for count, of in timed.items():
        middle = [ms(of.p50), f"{of.p50 / least.p50:.2f}", ms(of.p95), f"{of.p95 / least.p95:.2f}"]
        rows.append([str(count), *middle, ms(max(of.walls)), ms(of.cpu_each), f"{of.cpu_each / least.cpu_each:.2f}"])
    print_table(f"4. search_memories as the vault grows, ratios over {size.growth[0]} memories", rows)


def measure_http(size: Size, data_dir: Path) -> None:
    """5. The same calls over HTTP, and one that hardly does anything."""
    copy = data_dir.with_name("http")
    shutil.copytree(data_dir, copy)
    count = (size.http_rounds + 1) * size.http_calls
    requests = {
        "search_memories": _searches(count),
        "commit_memory, full": _commits(count, "http-"),
        "list_projects": itertools.repeat(("list_projects", {})),
    }
    http_calls.measure(copy, requests, rounds=size.http_rounds, calls=size.http_calls)


def _seeded(folder: Path, count: int) -> Path:
    """A data directory with this many memories."""
    data_dir = folder / f"vault-{count}"
    memories = list(Texts(SEED).memories(count))
    with closing(_vault_file(data_dir)) as db:
        for first in range(0, count, SEEDED_TOGETHER):
            with db.write() as tx:
                for memory in memories[first : first + SEEDED_TOGETHER]:
                    storage.upsert(tx, "", memory)
        IndexMerge("vault_words", lambda: [db]).merge()  # as a server does a few seconds after writes
    return data_dir


def _vault_file(data_dir: Path) -> Database:
    return Database(data_dir / "memory.db", schema.SCHEMA, backups=data_dir / "backups", durability="normal")


def _searches(count: int) -> Iterator[Request]:
    return (("search_memories", {"query": question}) for question in Texts(SEED + 1).questions(count))


def _commits(count: int, prefix: str) -> Iterator[Request]:
    for memory in Texts(SEED + 2).memories(count, prefix):
        arguments = {"scope": "vault", "key": memory.key, "content": memory.content, "tags": list(memory.tags)}
        yield "commit_memory", arguments


def _compared(case: str, goal: float, empty: Timed, ours: Timed) -> list[str]:
    ratio = ours.p50 / empty.p50
    return [
        case,
        ms(ours.p50),
        ms(empty.p50),
        f"{ratio:.2f}",
        f"<= {goal}",
        "met" if ratio <= goal else "missed",
        ms(ours.mean),
        f"{ours.mean / empty.mean:.2f}",
        ms(ours.cpu_each),
        f"{ours.cpu_each / empty.cpu_each:.2f}",
    ]


if __name__ == "__main__":
    main()
