"""A tenant and its attackers on one server: `make soak-hostile`.

A victim reads and writes in its own tenant, at a steady pace: first alone, then while another tenant and connections
without a key attack the same server in every way at once (benchmarks.hostile). What its calls take under attack stands
next to what they take alone. It ends with status 1 if the 95th percentile of a call is more than three times as
long, if a call of the victim fails, or if the server does not end within five seconds of SIGTERM while it is attacked.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from benchmarks import hostile
from benchmarks.figures import Timed, introduction, load, ms, print_table
from benchmarks.soak.servers import Server, memory_mcp, open_handles
from benchmarks.streamable import CallFailed, Client
from benchmarks.texts import Texts

SECONDS = 120.0  # under attack; alone it is half of that
MAX_RATIO = 3.0
MAX_STOP_S = 5.0
STOP_WAIT_S = 60.0  # after which a server is killed that does not end
CALL_TIMEOUT_S = 60.0
INTERVAL_S = 0.25  # between two calls of a kind, so that the victim alone does not use up the machine
ATTACK_LEAD_S = 3.0  # from the first attack to the first call that counts
NOTES, KEYS, FILES, ROWS = 300, 300, 100, 1000
STORE, PORTAL, TABLE = "soak", "mem://victim/victim", "events"
SHOWN = 5
SEED = 7


@dataclass
class Phase:
    """What the victim saw in one part of the run."""

    taken: dict[str, Timed] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass
class Watch:
    """The most that the server used."""

    server_bytes: int = 0
    engine_bytes: int = 0
    open_files: int = 0


class Victim:
    """One tenant, with a connection for each kind of call."""

    def __init__(self, port: int, key: str) -> None:
        texts = Texts(SEED)
        self._port = port
        self._key = key
        self._contents = [memory.content for memory in texts.memories(max(NOTES, KEYS, FILES))]
        self._questions = texts.questions(200)
        self._count = 0
        self.calls: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
            "memory_search": lambda: ("memory_search", {"query": self._question()}),
            "search_memories": lambda: ("search_memories", {"query": self._question(), "scope": "vault"}),
            "get_memory": lambda: ("get_memory", {"store": STORE, "path": f"c/{self._next() % FILES}"}),
            "portal_query": lambda: (
                "portal_query",
                {"portalUri": PORTAL, "sql": f"SELECT kind, count() AS n FROM {TABLE} GROUP BY kind ORDER BY kind"},
            ),
            "memory_create": lambda: ("memory_create", {"content": f"{self._next()}: {self._content()}"}),
            "commit_memory": lambda: (
                "commit_memory",
                {"scope": "vault", "key": f"new/{self._next()}", "content": self._content()},
            ),
            "portal_write": lambda: (
                "portal_write",
                {"portalUri": PORTAL, "table": TABLE, "data": [{"id": self._next(), "kind": "new"}]},
            ),
        }

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _content(self) -> str:
        return self._contents[self._count % len(self._contents)]

    def _question(self) -> str:
        return self._questions[self._next() % len(self._questions)]

    async def prepare(self) -> None:
        client = await self._client("prepare")
        for number in range(NOTES):
            await client.call("memory_create", {"content": self._contents[number]})
        for number in range(KEYS):
            memory = {"scope": "vault", "key": f"k{number}", "content": self._contents[number]}
            await client.call("commit_memory", memory)
        for number in range(FILES):
            await client.call("add_memory", {"store": STORE, "path": f"c/{number}", "content": self._contents[number]})
        rows = [{"id": number, "kind": f"kind {number % 7}"} for number in range(ROWS)]
        await client.call("portal_write", {"portalUri": PORTAL, "table": TABLE, "data": rows})
        await client.close()

    async def live(self, seconds: float) -> Phase:
        """Make every kind of call at its pace."""
        phase = Phase({name: Timed() for name in self.calls})
        end = time.monotonic() + seconds
        await asyncio.gather(*(self._repeat(name, phase, end) for name in self.calls))
        return phase

    async def _repeat(self, name: str, phase: Phase, end: float) -> None:
        client = await self._client(name)
        due = time.monotonic()
        while due < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tool, arguments = self.calls[name]()
            started = time.perf_counter()
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    await client.call(tool, arguments)
            except (CallFailed, TimeoutError) as exc:
                phase.failed.append(f"{tool}: {exc or 'no answer'}")
                await client.close()
            phase.taken[name].walls.append(time.perf_counter() - started)
            due = max(due + INTERVAL_S, time.monotonic())
        await client.close()

    async def _client(self, name: str) -> Client:
        client = Client(self._port, f"victim-{name}", self._key, legacy=False)
        await client.open()
        return client


class HostedServer(Server):
    """A server process that is watched and stopped."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        super().__init__(process, port)
        self.process = process

    def stop(self) -> float:
        """Seconds from SIGTERM to its end. A server that does not end is killed after STOP_WAIT_S."""
        started = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_WAIT_S)
        return time.perf_counter() - started


@contextmanager
def serving(data_dir: Path, log: Path) -> Iterator[HostedServer]:
    command = memory_mcp("serve", "--transport", "http", "--port", "0", "--data-dir", str(data_dir))
    with log.open("ab") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, encoding="utf-8")
    try:
        output = cast(IO[str], process.stdout)
        found = next((found for line in output if (found := re.search(r"http://[\d.]+:(\d+)", line))), None)
        if found is None:
            raise RuntimeError(f"The server does not start: {log.read_text(encoding='utf-8')}")
        yield HostedServer(process, int(found[1]))
    finally:
        process.kill()
        process.wait()
        cast(IO[str], process.stdout).close()


def make_keys(data_dir: Path) -> dict[str, str]:
    """Of the victim, and of the hostile tenant one that may write and one that may read."""

    def run(*arguments: str) -> dict[str, Any]:
        command = memory_mcp(*arguments, "--data-dir", str(data_dir), "--json")
        answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return answer

    for user in ("victim", "hostile"):
        run("users", "add", user)
    return {
        "victim": run("keys", "create", "--user", "victim", "--name", "victim")["key"],
        "writer": run("keys", "create", "--user", "hostile", "--name", "writer")["key"],
        "reader": run("keys", "create", "--user", "hostile", "--name", "reader", "--scopes", "read-only")["key"],
    }


@contextmanager
def attacking(target: hostile.Target) -> Iterator[subprocess.Popen[str]]:
    """All attacks in a process of their own, which ends by itself or with the block."""
    command = [sys.executable, "-m", "benchmarks.hostile"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        stdin = cast(IO[str], process.stdin)
        stdin.write(hostile.describe(target) + "\n")
        stdin.flush()
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            cast(IO[str], stream).close()


async def watch(server: HostedServer, seen: Watch) -> None:
    while True:
        resident, engines = await asyncio.to_thread(server.memory)
        seen.server_bytes = max(seen.server_bytes, resident)
        seen.engine_bytes = max(seen.engine_bytes, engines)
        seen.open_files = max(seen.open_files, open_handles(server.process.pid))
        await asyncio.sleep(0.5)


async def measure(server: HostedServer, victim: Victim, seconds: float) -> tuple[Phase, Watch]:
    seen = Watch()
    watching = asyncio.create_task(watch(server, seen))
    phase = await victim.live(seconds)
    watching.cancel()
    return phase, seen


@dataclass
class Soaked:
    alone: Phase
    attacked: Phase
    watch_alone: Watch
    watch_attacked: Watch
    stop_s: float
    counts: dict[str, Counter[str]]


def soak(server: HostedServer, keys: dict[str, str], seconds: float, only: str) -> Soaked:
    victim = Victim(server.port, keys["victim"])
    asyncio.run(victim.prepare())
    asyncio.run(_prepare_hostile(server.port, keys["writer"]))
    alone, watch_alone = asyncio.run(measure(server, victim, seconds / 2))
    span = seconds + ATTACK_LEAD_S + MAX_STOP_S  # the server is stopped while it is still attacked
    target = hostile.Target(server.port, keys["writer"], keys["reader"], span, only)
    with attacking(target) as attackers:
        time.sleep(ATTACK_LEAD_S)
        attacked, watch_attacked = asyncio.run(measure(server, victim, seconds))
        stop_s = server.stop()
        output = attackers.communicate(timeout=span + STOP_WAIT_S)[0]
    counts = {name: Counter(count) for name, count in json.loads(output or "{}").items()}
    return Soaked(alone, attacked, watch_alone, watch_attacked, stop_s, counts)


async def _prepare_hostile(port: int, key: str) -> None:
    client = Client(port, "hostile", key, legacy=False)
    await client.open()
    for portal in hostile.PORTALS:
        await client.call("portal_write", {"portalUri": portal, "table": "t", "data": [{"a": 1}]})
    await client.close()


def main() -> None:
    options = _arguments()
    print(introduction(), flush=True)
    with tempfile.TemporaryDirectory(
        prefix="memory-mcp-hostile-", dir=options.dir, ignore_cleanup_errors=True
    ) as folder:
        data_dir, log = Path(folder) / "data", Path(folder) / "log"
        keys = make_keys(data_dir)
        with serving(data_dir, log) as server:
            soaked = soak(server, keys, options.seconds, options.only)
        complaints = _complaints(log)
    failed = soaked.alone.failed + soaked.attacked.failed
    is_fast = _print_calls(soaked)
    _print_attacks(soaked)
    _print_server(soaked, complaints)
    if failed:
        print(f"\nFailed calls of the victim ({len(failed)}):", *failed[:SHOWN], sep="\n  ")
    print(f"\n{load()} at the end")
    if failed or not is_fast or soaked.stop_s > MAX_STOP_S:
        sys.exit(1)


def _print_calls(soaked: Soaked) -> bool:
    """Whether no call takes much longer under attack than alone."""
    rows = [["the victim's calls", "alone", "p50 ms", "p95 ms", "attacked", "p50 ms", "p95 ms", "ratio", "goal", ""]]
    is_fast = True
    for name, alone in soaked.alone.taken.items():
        attacked = soaked.attacked.taken[name]
        if len(alone.walls) < 2 or len(attacked.walls) < 2:
            rows.append([name, str(len(alone.walls)), "", "", str(len(attacked.walls)), "", "", "", "", "too few"])
            is_fast = False
            continue
        ratio = attacked.p95 / alone.p95
        is_fast = is_fast and ratio <= MAX_RATIO
        times = [figure for one in (alone, attacked) for figure in (str(len(one.walls)), ms(one.p50), ms(one.p95))]
        goal = [f"<= {MAX_RATIO:.0f}", "met" if ratio <= MAX_RATIO else "missed"]
        rows.append([name, *times, f"{ratio:.2f}", *goal])
    print_table(f"1. {len(soaked.attacked.failed)} calls failed under attack, {len(soaked.alone.failed)} alone", rows)
    return is_fast


def _print_attacks(soaked: Soaked) -> None:
    rows = [["attack", "times", "what the server did"]]
    for name, count in soaked.counts.items():
        rows.append([name, str(count.total()), ", ".join(f"{what} {times}" for what, times in count.most_common(4))])
    print_table("2. Attacks, all at once", rows)


def _complaints(log: Path) -> Counter[str]:
    """Warnings and errors of the server's log, with the exceptions behind them, by how often they are there."""
    found: Counter[str] = Counter()
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, AttributeError):
            output = json.loads(line)
            if output["level"] not in ("debug", "info"):
                cause = output.get("exception", "").strip().rpartition("\n")[2]
                found[f"{output['message']} {cause}"[:120].replace("\n", " ")] += 1
    return found


def _print_server(soaked: Soaked, complaints: Counter[str]) -> None:
    rows = [["the server", "alone", "attacked"]]
    phases = (soaked.watch_alone, soaked.watch_attacked)
    rows.append(["MB of memory, at most", *(f"{seen.server_bytes / 1e6:.0f}" for seen in phases)])
    rows.append(["MB of its child processes", *(f"{seen.engine_bytes / 1e6:.0f}" for seen in phases)])
    rows.append(["files open", *(str(seen.open_files) for seen in phases)])
    print_table("3. What the server used", rows)
    goal = "met" if soaked.stop_s <= MAX_STOP_S else "missed"
    print(f"\nSIGTERM under attack: ended after {soaked.stop_s:.1f} s (goal: {MAX_STOP_S:.0f} s, {goal})")
    print("Its log:", *(f"{times} x {line}" for line, times in complaints.most_common(2 * SHOWN)), sep="\n  ")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak-hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the attacks last [SECONDS]")
    parser.add_argument("--only", default="", help="make one attack alone, such as slow_queries")
    parser.add_argument("--dir", type=Path, help="where to put the data, such as another disk")
    return parser.parse_args()


if __name__ == "__main__":
    main()
