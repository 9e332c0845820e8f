"""What syncing takes, next to writing: `make bench-sync`.

Notes are written through memory_create, in a namespace that is synced and in one that is not, alternately. Then one
node sends the first to a hub and another receives them, all as processes of their own on loopback.
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from benchmarks.figures import introduction, load, print_table
from benchmarks.pipe import ServerProcess
from benchmarks.texts import Texts
from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote

COUNTS = (10_000, 100_000)
QUICK = (400, 1000)
BLOCK = 100  # notes written in one namespace before it is the other's turn
NOTES_PER_TRANSACTION = 500  # notes in one transaction, where writing is not measured
PLAIN, SYNCED = "plain", "synced"
SEED = 3
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))


@dataclass(frozen=True)
class Spent:
    """Seconds on the clock, and of CPU in the process that did it."""

    elapsed: float
    cpu: float

    def per(self, count: int) -> "Spent":
        return Spent(self.elapsed / count, self.cpu / count)

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.elapsed + other.elapsed, self.cpu + other.cpu)


def memory_mcp(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "memory_mcp", *map(str, arguments)]


class Node:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def sync(self, *arguments: str) -> tuple[Spent, Any]:
        """The cost and the output of a verb. Raises CalledProcessError for any status but 0."""
        started, cpu = time.perf_counter(), _cpu_of_children()
        command = memory_mcp("sync", *arguments, "--json", "--data-dir", self.data_dir)
        output = subprocess.run(command, check=True, capture_output=True).stdout
        return Spent(time.perf_counter() - started, _cpu_of_children() - cpu), json.loads(output)

    def exchanged(self, **expected: int) -> Spent:
        spent, output = self.sync("now")
        assert {name: output[name] for name in expected} == expected, output
        return spent

    def serve(self) -> ServerProcess:
        return ServerProcess(memory_mcp("--embedder", "none", "--data-dir", self.data_dir), quiet=True)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def hub(folder: Path) -> Iterator[tuple[str, str]]:
    """Its address and a key."""
    made = subprocess.run(
        memory_mcp("keys", "create", "--name", "bench", "--json", "--data-dir", folder), check=True, capture_output=True
    )
    process = subprocess.Popen(
        memory_mcp("hub", "--port", "0", "--data-dir", folder), stdout=subprocess.PIPE, encoding="utf-8"
    )
    output = cast(IO[str], process.stdout)
    try:
        url = next(line.split()[-1] for line in output if line.strip().startswith("Nodes"))
        yield url, json.loads(made.stdout)["key"]
    finally:
        process.terminate()
        process.wait()
        output.close()


def written(node: Node, count: int) -> tuple[Spent, Spent]:
    """What writing takes where notes are stamped, and where they are not."""
    notes = Texts(SEED).notes(2 * count)
    spent = {SYNCED: Spent(0, 0), PLAIN: Spent(0, 0)}
    with node.serve() as server:
        server.shake_hands()
        for number in range(2 * count // BLOCK):
            namespace = (SYNCED, PLAIN)[number % 2]
            spent[namespace] += _block(server, namespace, itertools.islice(notes, BLOCK))
    return spent[SYNCED], spent[PLAIN]


def _block(server: ServerProcess, namespace: str, notes: Iterator[NewNote]) -> Spent:
    calls = [_arguments_of(note, namespace) for note in notes]
    cpu = server.cpu()
    elapsed = sum(server.call("memory_create", arguments) for arguments in calls)
    return Spent(elapsed, server.cpu() - cpu)


def _arguments_of(note: NewNote, namespace: str) -> dict[str, Any]:
    arguments = {
        "content": note.content,
        "tags": list(note.tags),
        "importance": note.importance,
        "namespace": namespace,
    }
    return arguments | ({"title": note.title} if note.title else {})


def fill(node: Node, count: int) -> None:
    chosen = settings.load({"data_dir": node.data_dir, "embedder": "none", "durability": "normal"}).settings
    notes = (replace(note, namespace=SYNCED) for note in Texts(SEED).notes(count))
    with open_app(chosen) as app:
        while several := list(itertools.islice(notes, NOTES_PER_TRANSACTION)):
            app.notes.writer.create_all(CALLER, Author("mcp", "benchmark"), several)


def measure(folder: Path, counts: Sequence[int]) -> None:
    few, many = counts
    with hub(folder / "hub") as (url, key):
        one, other = Node(folder / "one"), Node(folder / "other")
        one.sync("link", url, "--key", key)
        one.sync("enable", SYNCED)
        one.sync("unlink")  # so that writing is all that happens while notes are written
        stamped, plain = written(one, few)
        print_table(
            f"1. Writing {few:,} notes, stamped and not",
            [
                ["namespace", "ms a note", "ratio", "CPU ms", "ratio"],
                *(
                    [name, *_compared(spent.per(few), plain.per(few))]
                    for name, spent in (("synced", stamped), ("not synced", plain))
                ),
            ],
        )
        one.sync("link", url, "--key", key)
        other.sync("link", url, "--key", key)
        other.sync("enable", SYNCED)
        _print_exchange(2, few, plain.per(few), one.exchanged(pushed=few), other.exchanged(pulled=few))
    if many:
        with hub(folder / "large-hub") as (url, key):
            one, other = Node(folder / "large-one"), Node(folder / "large-other")
            fill(one, many)
            one.sync("link", url, "--key", key)
            enabled, _ = one.sync("enable", SYNCED)
            print(f"\nEnabling a namespace with {many:,} notes: {enabled.elapsed:.1f} s", flush=True)
            other.sync("link", url, "--key", key)
            other.sync("enable", SYNCED)
            _print_exchange(3, many, plain.per(few), one.exchanged(pushed=many), other.exchanged(pulled=many))


def _print_exchange(number: int, count: int, plain: Spent, sent: Spent, taken: Spent) -> None:
    rows = [["", "s", "ms a note", "ratio", "CPU ms", "ratio"]]
    for name, spent in (("sending", sent), ("taking in", taken), ("both", sent + taken)):
        rows.append([name, f"{spent.elapsed:.1f}", *_compared(spent.per(count), plain)])
    print_table(f"{number}. A first sync of {count:,} notes; ratios are to writing a note, CPU is the node's", rows)


def _compared(spent: Spent, plain: Spent) -> list[str]:
    return [
        f"{spent.elapsed * 1000:.2f}",
        f"{spent.elapsed / plain.elapsed:.2f}",
        f"{spent.cpu * 1000:.2f}",
        f"{spent.cpu / plain.cpu:.2f}",
    ]


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    print(introduction(), flush=True)
    counts = QUICK if options.quick else (COUNTS[0], 0) if options.short else COUNTS
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-", dir=options.dir) as folder:
        measure(Path(folder), counts)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-sync ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few notes, to see that it runs")
    parser.add_argument("--short", action="store_true", help="without the 100,000 notes, which take some ten minutes")
    parser.add_argument("--dir", help="where the data directories go: durable writes are as fast as this disk")
    return parser.parse_args()


if __name__ == "__main__":
    main()
