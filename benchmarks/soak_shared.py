"""Clients that write while their shared server is killed again and again: `make soak-shared`.

Eight clients over stdio write memories of three families. The server is killed with SIGKILL, some times with SIGTERM
or `memory-mcp stop`, and replaced by newer versions in between: copies of this package with a higher number. At the
end every acknowledged write must be there once, and no client may have needed a restart.
"""

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import memory_mcp as package
from benchmarks.figures import introduction, load, print_table
from benchmarks.pipe import ServerProcess, memory_mcp
from memory_mcp.services.sessions import Servers

CLIENTS = 8
KILLS = 200
NEWER_EVERY = 40  # kills, until a client of the next version comes
MAX_PAUSE_S = 1.0  # between a server's first answer and its end
SEED = 1


@dataclass
class Client:
    """One client, and what became of its writes."""

    name: str
    server: ServerProcess
    acknowledged: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)  # answered: it may have happened
    refused: Counter[str] = field(default_factory=Counter)
    failure: BaseException | None = None

    def write(self, stop: threading.Event) -> None:
        try:
            number = 0
            while not stop.is_set():
                number += 1
                self._write_one(f"{self.name}-{number}", number)
        except BaseException as exc:  # noqa: BLE001  # reported at the end
            self.failure = exc

    def _write_one(self, text: str, number: int) -> None:
        try:
            self.server.answer(*_call(text, number))
        except RuntimeError as exc:
            if "may_have_happened': True" in str(exc):
                self.unsure.add(text)
            elif "unavailable" in str(exc):
                self.refused["unavailable"] += 1
            else:
                raise
        else:
            self.acknowledged.add(text)


def _call(text: str, number: int) -> tuple[str, dict[str, Any]]:
    if number % 3 == 0:
        return "commit_memory", {"scope": "vault", "key": text, "content": text}
    if number % 3 == 1:
        return "memory_create", {"content": text, "namespace": "soak"}
    return "create_entities", {"project": "soak", "entities": [{"name": text, "entity_type": "soak"}]}


def main() -> None:
    options = _arguments()
    print(introduction())
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memory-mcp-soak-", dir=options.dir) as folder:
        is_good = run(Path(folder), options.kills)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not is_good:
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak-shared ARGS=", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--dir", help="where the data goes")
    return parser.parse_args()


def run(folder: Path, kills: int) -> bool:
    data_dir = folder / "data"
    stop = threading.Event()
    with ExitStack() as stack, background_servers(data_dir):
        clients = [Client(f"c{n}", stack.enter_context(_start(data_dir))) for n in range(CLIENTS)]
        clients[0].server.answer("create_project", {"name": "soak"})
        pids = [client.server.pid for client in clients]
        threads = [threading.Thread(target=client.write, args=(stop,)) for client in clients]
        for thread in threads:
            thread.start()
        ended = _end_servers(folder, data_dir, kills, stack)
        stop.set()
        for thread in threads:
            thread.join()
        assert pids == [client.server.pid for client in clients]
        found = _stored(data_dir)
    return report(clients, ended, found)


@contextmanager
def background_servers(data_dir: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for server in Servers(data_dir / "servers").running():
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)


def _start(data_dir: Path, source: Path | None = None) -> ServerProcess:
    path = os.environ.get("PYTHONPATH", "") if source is None else str(source)
    command = (sys.executable, "-m", "memory_mcp", *memory_mcp(data_dir, "--embedder", "none")[1:])
    server = ServerProcess(command, MEMORY_MCP_SHARED="auto", PYTHONPATH=path)
    server.shake_hands()
    return server


def _end_servers(folder: Path, data_dir: Path, kills: int, stack: ExitStack) -> Counter[str]:
    """End the server so many times, each time when the next one has begun to serve."""
    chance, ended, last = random.Random(SEED), Counter[str](), 0
    while ended["SIGKILL"] < kills:
        pid = _next_server(data_dir, last)
        time.sleep(chance.uniform(0.0, MAX_PAUSE_S))
        how = chance.choices(("SIGKILL", "SIGTERM", "stop"), (90, 6, 4))[0]
        if how == "stop":
            command = [sys.executable, "-m", "memory_mcp", "stop", "--data-dir", str(data_dir)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        else:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[how])
        ended[how] += 1
        last = pid
        if ended["SIGKILL"] % NEWER_EVERY == NEWER_EVERY // 2 and how == "SIGKILL":
            ended["newer version"] += 1
            stack.enter_context(_start(data_dir, _newer(folder, ended["newer version"])))
    return ended


def _next_server(data_dir: Path, last: int) -> int:
    while True:
        running = [server.pid for server in Servers(data_dir / "servers").running() if server.kind == "shared"]
        if found := [pid for pid in running if pid != last]:
            return found[-1]
        time.sleep(0.01)


def _newer(folder: Path, number: int) -> Path:
    """This package as a later version."""
    source = folder / f"version-{number}"
    shutil.copytree(Path(package.__file__).parent, source / "memory_mcp", ignore=shutil.ignore_patterns("__pycache__"))
    text = (source / "memory_mcp" / "__init__.py").read_text(encoding="utf-8")
    changed = text.replace(package.__version__, f"{package.__version__}.{number}")
    (source / "memory_mcp" / "__init__.py").write_text(changed, encoding="utf-8")
    return source


TABLES = {
    "memory.db": "SELECT content FROM vault_memories",
    "notes.db": "SELECT content FROM notes",
    "projects/*.db": "SELECT name FROM entities",
}


def _stored(data_dir: Path) -> Counter[str]:
    """How often each text is stored, by the files themselves."""
    found: Counter[str] = Counter()
    for pattern, query in TABLES.items():
        for path in data_dir.glob(pattern):
            with closing(sqlite3.connect(path)) as connection:
                found.update(text for (text,) in connection.execute(query))
    return found


def report(clients: list[Client], ended: Counter[str], found: Counter[str]) -> bool:
    acknowledged = set().union(*(client.acknowledged for client in clients))
    unsure = set().union(*(client.unsure for client in clients))
    lost, doubled = acknowledged - found.keys(), [text for text, count in found.items() if count > 1]
    unknown = found.keys() - acknowledged - unsure
    rows = [("", "count"), *((f"ended by {how}", str(count)) for how, count in sorted(ended.items()))]
    rows += [("writes acknowledged", str(len(acknowledged))), ("writes that may have happened", str(len(unsure)))]
    rows += [("of these stored", str(len(unsure & found.keys()))), ("acknowledged and lost", str(len(lost)))]
    rows += [("stored twice", str(len(doubled))), ("stored without an answer that says so", str(len(unknown)))]
    refused = sum(client.refused.total() for client in clients)
    rows += [("writes refused as unavailable", str(refused))]
    failures = [f"{client.name}: {client.failure!r}" for client in clients if client.failure]
    print_table("The shared server under fire", [*rows, ("clients that failed", str(len(failures)))])
    for line in [*failures, *sorted(lost)[:10], *doubled[:10]]:
        print(line)
    return not (lost or doubled or unknown or failures)


if __name__ == "__main__":
    main()
