"""How soon a client over stdio is served, and what many clients cost: `make bench-start`.

One run, all contenders in turns: a client through a relay to a warm shared server, the same with no server running
yet, a server in the client's own process, a bare server of the SDK, and @modelcontextprotocol/server-memory. It ends
with status 1 if a goal is missed.
"""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import graph
from benchmarks.figures import Timed, introduction, load, ms, print_table
from benchmarks.pipe import EMPTY, ServerProcess, memory_mcp

ROUNDS = 15
CALLS = 300
CLIENTS = 10
WARM_GOAL = 0.3  # of a bare SDK server's start
RELAY_GOAL_BYTES = 12_000_000
CLIENTS_GOAL = 1.5  # times the memory of one
CALL_GOAL = 1.2  # times a direct call
WARM, COLD, ALONE, BARE, PEER = "shared, warm", "shared, cold", "own process", "bare SDK server", "server-memory"


@dataclass(frozen=True)
class Contender:
    name: str
    start: Callable[[], ServerProcess]
    has_search: bool
    after: Callable[[], object] = lambda: None


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    graph.install()
    print(introduction())
    with (
        tempfile.TemporaryDirectory(prefix="memory-mcp-bench-", dir=options.dir) as folder,
        Shared(Path(folder) / "warm") as warm,
        Shared(Path(folder) / "cold") as cold,
    ):
        goals = [
            *measure_starts(contenders(Path(folder), warm, cold), 3 if options.quick else ROUNDS),
            measure_calls(warm, 30 if options.quick else CALLS),
            *measure_memory_bytes(Path(folder) / "many"),
        ]
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    for goal, is_met in goals:
        print(f"{'met' if is_met else 'MISSED'}: {goal}")
    if not all(is_met for _, is_met in goals):
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-start ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs")
    parser.add_argument("--dir", help="where the data goes")
    return parser.parse_args()


class Shared:
    """A data directory with some notes, whose clients share a server. Leaving the block stops it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def __enter__(self) -> "Shared":
        with self.client() as server:
            server.shake_hands()
            for number in range(20):
                server.call("memory_create", {"content": f"Note {number}: we back up nightly and deploy on Tuesdays"})
                server.call("commit_memory", {"scope": "vault", "key": f"k{number}", "content": f"fact {number}"})
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self) -> ServerProcess:
        return ServerProcess(memory_mcp(self.data_dir), quiet=True, MEMORY_MCP_SHARED="auto")

    def stop(self) -> None:
        command: list[str | Path] = [*memory_mcp(self.data_dir)[:1], "stop", "--data-dir", self.data_dir]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def contenders(folder: Path, warm: Shared, cold: Shared) -> list[Contender]:
    peer = graph.NPM / "node_modules" / graph.PACKAGE / "dist" / "index.js"
    cold.stop()
    return [
        Contender(WARM, warm.client, has_search=True),
        Contender(COLD, cold.client, has_search=True, after=cold.stop),
        Contender(ALONE, lambda: ServerProcess(memory_mcp(warm.data_dir), quiet=True), has_search=True),
        Contender(BARE, lambda: ServerProcess(EMPTY, quiet=True), has_search=False),
        Contender(
            PEER,
            lambda: ServerProcess(("node", peer), quiet=True, MEMORY_FILE_PATH=str(folder / "peer.jsonl")),
            has_search=False,
        ),
    ]


def measure_starts(rivals: Sequence[Contender], rounds: int) -> list[tuple[str, bool]]:
    """1. From the start of the process to the first list of tools, and to the first search by meaning."""
    lists = {rival.name: Timed() for rival in rivals}
    searches = {rival.name: Timed() for rival in rivals if rival.has_search}
    for _ in range(rounds):
        for rival in rivals:
            started = time.perf_counter()
            with rival.start() as server:
                server.shake_hands()
                server.request("tools/list", {})
                lists[rival.name].walls.append(time.perf_counter() - started)
                if rival.has_search:
                    server.call("memory_search", {"query": "when do we ship?"})
                    searches[rival.name].walls.append(time.perf_counter() - started)
            rival.after()
    bare = lists[BARE].p50
    rows = [("", "tools/list", "p95", "× bare", "first search")]
    rows += [
        (
            name,
            ms(timed.p50),
            ms(timed.p95),
            f"{timed.p50 / bare:.2f}",
            ms(searches[name].p50) if name in searches else "",
        )
        for name, timed in lists.items()
    ]
    print_table("1. From the client's start to the answer, ms", rows)
    return [
        (f"a warm start takes at most {WARM_GOAL} of a bare SDK server's", lists[WARM].p50 <= WARM_GOAL * bare),
        ("a warm start is ahead of server-memory's", lists[WARM].p50 < lists[PEER].p50),
    ]


def measure_calls(warm: Shared, calls: int) -> tuple[str, bool]:
    """2. The same call through the relay and directly, in turns."""
    through, direct = Timed(), Timed()
    with warm.client() as relayed, ServerProcess(memory_mcp(warm.data_dir), quiet=True) as alone:
        for server in (relayed, alone):
            server.shake_hands()
            server.call("search_memories", {"query": "fact"})
        for number in range(calls):
            for server, timed in ((relayed, through), (alone, direct)):
                timed.walls.append(server.call("search_memories", {"query": f"fact {number % 20}"}))
    ratio = through.p50 / direct.p50
    rows = [("", "p50", "p95"), ("through the relay", ms(through.p50), ms(through.p95))]
    rows += [("in the own process", ms(direct.p50), ms(direct.p95)), ("ratio", f"{ratio:.2f}", "")]
    print_table("2. search_memories, ms", rows)
    return f"a call through the relay takes at most {CALL_GOAL} of a direct one", ratio <= CALL_GOAL


def measure_memory_bytes(data_dir: Path) -> list[tuple[str, bool]]:
    """3. What one client and ten clients take, relays and server together, after a search each."""
    with Shared(data_dir) as shared, ExitStack() as stack:
        shared.stop()
        clients: list[ServerProcess] = []
        totals: list[int] = []
        for number in range(1, CLIENTS + 1):
            clients.append(stack.enter_context(shared.client()))
            clients[-1].shake_hands()
            clients[-1].call("memory_search", {"query": "when do we ship?"})
            if number in (1, CLIENTS):
                totals.append(sum(map(_memory_bytes, [*_processes_of(data_dir), *(client.pid for client in clients)])))
        relay = max(_memory_bytes(client.pid) for client in clients)
    one, ten = totals
    rows = [("", "MB (PSS)"), ("a relay", f"{relay / 1e6:.1f}"), ("one client", f"{one / 1e6:.0f}")]
    rows += [(f"{CLIENTS} clients", f"{ten / 1e6:.0f}"), ("ratio", f"{ten / one:.2f}")]
    print_table("3. Memory, relays and server together", rows)
    return [
        (f"a relay takes at most {RELAY_GOAL_BYTES / 1e6:.0f} MB", relay <= RELAY_GOAL_BYTES),
        (f"{CLIENTS} clients take at most {CLIENTS_GOAL} times the memory of one", ten <= CLIENTS_GOAL * one),
    ]


def _processes_of(data_dir: Path) -> list[int]:
    found = subprocess.run(["pgrep", "-f", f"memory_mcp.server.shared.*{data_dir}"], capture_output=True, check=True)
    return [int(pid) for pid in found.stdout.split() if int(pid) != os.getpid()]


def _memory_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024


if __name__ == "__main__":
    main()
