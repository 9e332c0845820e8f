"""How fast stores are, next to the minimum of file system calls for the same work: `make bench-stores`.

Ours is called over stdio. The bare way runs in this process, on the same tree, alternating with ours.
"""

import argparse
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.figures import Timed, introduction, load, ms, print_table
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.texts import Texts
from memory_mcp.clock import stamp, utc_now
from memory_mcp.families.stores import frontmatter
from memory_mcp.families.stores.model import Metadata
from memory_mcp.families.vault.model import NewMemory

SEED = 1
STORE = "benchmark"
FILES_PER_FOLDER = 100  # files in a folder
FOLDERS = 10  # with files, in each folder at the top
GOAL = 2.0  # times as long as a walk that looks at each file

OPERATIONS = ADD, GET, LIST, RECENT, EDITED, REINDEX = (
    "add_memory",
    "get_memory",
    "list_memories",
    "recent",
    "recent, after an edit",
    "reindex_store",
)
LATEST = "cortex_get_recent_memories"
NAMES, STATUSES = "walk, names", "walk, stat"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    counts: tuple[int, ...] = (1_000, 10_000, 100_000)
    calls: int = 300  # of each operation that looks at one file or folder
    max_walks: int = 100
    looked_at: int = 2_000_000  # files that all walks of one kind look at, if that makes fewer
    reindexings: int = 3

    def walks(self, count: int) -> int:
        return min(self.max_walks, self.looked_at // count)


QUICK = Size(counts=(1_000,), calls=30, max_walks=10, reindexings=2)


@dataclass(frozen=True)
class Tree:
    """A store's folder, and what is in it."""

    top: Path
    paths: list[str]  # of its memories, as tools call them

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(path.rpartition("/")[0] for path in self.paths))

    def file(self, path: str) -> Path:
        return self.top / f"{path}.md"


@dataclass
class Compared:
    """What calls of one operation took, and what each bare way to the same took in between."""

    ours: Timed = field(default_factory=Timed)
    bare: dict[str, Timed] = field(default_factory=dict)

    def take(self, server: ServerProcess, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        cpu = server.cpu()
        taken, answer = server.timed_answer(tool, {"store": STORE, **arguments})
        self.ours.walls.append(taken)
        self.ours.cpu += server.cpu() - cpu
        return answer

    def take_bare(self, ways: Mapping[str, Callable[[], object]]) -> None:
        for name, way in ways.items():
            self.bare.setdefault(name, Timed()).run(way)


Measured = dict[tuple[int, str], Compared]


def main() -> None:
    options = _arguments()
    size = QUICK if options.quick else Size()
    size = replace(size, counts=tuple(options.counts or size.counts))
    started = time.monotonic()
    print(introduction())
    warm: Measured = {}
    cold: Measured = {}
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-", dir=options.dir) as folder:
        for count in size.counts:
            measure(size, Path(folder), count, warm, cold)
    is_met = print_recent(warm)
    print_others(warm)
    print_cold(cold)
    print_growth(warm)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not is_met and not options.quick:
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-stores ARGS=", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", help="how many files there are, the fewest first")
    parser.add_argument("--quick", action="store_true", help="a small store and few calls, to see that it runs")
    parser.add_argument("--dir", help="where the stores go: durable writes are as fast as this disk")
    return parser.parse_args()


def measure(size: Size, folder: Path, count: int, warm: Measured, cold: Measured) -> None:
    """Everything in a store of this many files."""
    tree = _grown(folder / f"store-{count}", count)
    choosing = random.Random(SEED)
    with _serving(folder / f"data-{count}", tree) as server:
        cold[count, RECENT] = _first(server, tree, LATEST)
        warm[count, RECENT] = _recent(server, tree, size.walks(count))
        warm[count, GET] = _get(server, tree, choosing.choices(tree.paths, k=size.calls))
        warm[count, LIST] = _list(server, tree, choosing.choices(tree.categories, k=size.calls))
        warm[count, EDITED] = _edited(server, tree, choosing.sample(tree.paths, size.walks(count)))
        warm[count, ADD] = _add(server, tree, size.calls)
    for index in tree.top.rglob("index.yaml"):
        index.unlink()
    with _serving(folder / f"data-{count}-again", tree) as server:
        cold[count, REINDEX] = _first(server, tree, "reindex_store")
        warm[count, REINDEX] = _reindex(server, tree, size.reindexings)


def _serving(data_dir: Path, tree: Tree) -> ServerProcess:
    """A server on which the store was just registered."""
    program, *flags = memory_mcp(data_dir, "--log-level", "error")
    subprocess.run(
        (program, "stores", "add", STORE, tree.top, "--data-dir", data_dir), check=True, stdout=subprocess.DEVNULL
    )
    server = ServerProcess((program, *flags))
    server.shake_hands()
    return server


# Each operation, and the bare way to the same


def _first(server: ServerProcess, tree: Tree, tool: str) -> Compared:
    """A call that has to read every file, after each was read once the bare way: both find them in the page cache."""
    compared = Compared()
    for _ in range(2):
        compared.bare.clear()
        compared.take_bare(_reading(tree))
    compared.take(server, tool, {})
    return compared


def _recent(server: ServerProcess, tree: Tree, walks: int) -> Compared:
    compared = Compared()
    for _ in range(walks):
        compared.take_bare(_walks(tree))
        compared.take(server, LATEST, {})
    return compared


def _edited(server: ServerProcess, tree: Tree, paths: Iterable[str]) -> Compared:
    """A file is edited in place before each call, which must show it first."""
    compared = Compared()
    for number, path in enumerate(paths):
        compared.take_bare(_walks(tree))
        later = stamp(utc_now().replace(year=9000 + number))
        tree.file(path).write_text(frontmatter.new(Metadata(later, later), "Edited."), encoding="utf-8")
        latest = compared.take(server, LATEST, {})["memories"][0]
        if (latest["path"], latest["content"]) != (path, "Edited."):
            raise SystemExit(f"The edit of {path} was not seen.")
    return compared


def _get(server: ServerProcess, tree: Tree, paths: Iterable[str]) -> Compared:
    compared = Compared()
    for path in paths:
        compared.take_bare({"open, read": tree.file(path).read_bytes})
        compared.take(server, "get_memory", {"path": path})
    return compared


def _list(server: ServerProcess, tree: Tree, categories: Iterable[str]) -> Compared:
    compared = Compared()
    for category in categories:
        folder = tree.top / category
        compared.take_bare({"scandir, stat": lambda folder=folder: _statuses(folder)})  # type: ignore[misc]  # no type
        compared.take(server, "list_memories", {"category": category})
    return compared


def _add(server: ServerProcess, tree: Tree, calls: int) -> Compared:
    """Both write the same amount into the same folder; what is no .md is not the server's concern."""
    compared, categories = Compared(), tree.categories
    for number, memory in enumerate(Texts(SEED + 1).memories(calls, "new-")):
        category = categories[number % len(categories)]
        text, target = _text(memory), tree.top / category / f"{memory.key}.bare"
        compared.take_bare({"durable write": lambda text=text, target=target: _write(target, text)})  # type: ignore[misc]
        arguments = {"path": f"{category}/{memory.key}", "content": memory.content, "tags": list(memory.tags)}
        compared.take(server, "add_memory", arguments)
        target.unlink()
    return compared


def _reindex(server: ServerProcess, tree: Tree, calls: int) -> Compared:
    compared = Compared()
    for _ in range(calls):
        compared.take_bare(_reading(tree))
        compared.take(server, "reindex_store", {})
    return compared


def _walks(tree: Tree) -> Mapping[str, Callable[[], object]]:
    return {NAMES: lambda: _names(tree.top), STATUSES: lambda: _statuses(tree.top)}


def _reading(tree: Tree) -> Mapping[str, Callable[[], object]]:
    return {"reading all": lambda: _read_all(tree.top)}


def _names(top: Path) -> None:
    """See which files there are."""
    for _ in os.walk(top):
        pass


def _statuses(top: str | Path) -> None:
    """Also detects edited files."""
    with os.scandir(top) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _statuses(entry.path)
            else:
                entry.stat(follow_symlinks=False)


def _read_all(top: Path) -> None:
    for folder, _, files in os.walk(top):
        for file in files:
            with open(f"{folder}/{file}", "rb") as opened:  # noqa: PTH123  # a Path takes longer to make than to read
                opened.read()


def _write(target: Path, text: str) -> None:
    """A file that is there whole or not at all, also after a power cut."""
    part = target.with_name(f".{target.name}")
    with part.open("wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


# Trees


def _grown(top: Path, count: int) -> Tree:
    """Files with front matter, in folders in folders."""
    paths = []
    for number, memory in enumerate(Texts(SEED).memories(count)):
        folder = number // FILES_PER_FOLDER
        category = f"topic-{folder // FOLDERS:03}/part-{folder % FOLDERS}"
        if number % FILES_PER_FOLDER == 0:
            (top / category).mkdir(parents=True)
        paths.append(f"{category}/{memory.key}")
        (top / f"{paths[-1]}.md").write_text(_text(memory, number), encoding="utf-8")
    return Tree(top, paths)


def _text(memory: NewMemory, number: int = 0) -> str:
    """As add_memory writes it, at another time each."""
    day, second = 1 + number // 86_400, number % 86_400
    written = f"2026-01-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    tags = "".join(f"\n  - {tag}" for tag in memory.tags) or " []"
    front = f"created_at: '{written}'\nupdated_at: '{written}'\ntags:{tags}\nsource: mcp\n"
    return f"---\n{front}---\n\n{memory.content}\n"


# Tables


def print_recent(warm: Measured) -> bool:
    headings = ["files", "p50 ms", "stat", "ratio", "of minima", "goal", "", "names", "ratio", "mean ms", "CPU ms"]
    rows, are_met = [headings], []
    for (count, operation), compared in warm.items():
        if operation == RECENT:
            ours, names, statuses = compared.ours, compared.bare[NAMES], compared.bare[STATUSES]
            are_met.append(ours.p50 / statuses.p50 <= GOAL)
            judged = [f"<= {GOAL:.0f}", "met" if are_met[-1] else "missed"]
            looked = [ms(ours.p50), ms(statuses.p50), *_ratios(ours, statuses), *judged]
            others = [ms(names.p50), f"{ours.p50 / names.p50:.1f}", ms(ours.mean), ms(ours.cpu_each)]
            rows.append([str(count), *looked, *others])
    print_table(
        f"1. {LATEST} of the whole store, next to a walk that stats each file, and one that lists names only", rows
    )
    return all(are_met)


def print_others(warm: Measured) -> None:
    headings = [
        "files and operation",
        "p50 ms",
        "mean ms",
        "CPU ms",
        "next to",
        "p50 ms",
        "mean ms",
        "ratio",
        "of minima",
    ]
    rows = [headings]
    for (count, operation), compared in sorted(
        warm.items(), key=lambda item: (item[0][0], OPERATIONS.index(item[0][1]))
    ):
        if operation != RECENT:
            way, bare = list(compared.bare.items())[-1]
            ours = [ms(compared.ours.p50), ms(compared.ours.mean), ms(compared.ours.cpu_each)]
            rows.append(
                [f"{count}, {operation}", *ours, way, ms(bare.p50), ms(bare.mean), *_ratios(compared.ours, bare)]
            )
    print_table("2. The other tools, each next to the minimum of file system calls for it", rows)


def print_cold(cold: Measured) -> None:
    rows = [["files and first call", "s", "CPU s", "files per s", "reading all s", "ratio"]]
    for (count, operation), compared in cold.items():
        (bare,) = compared.bare.values()
        took = [f"{compared.ours.mean:.2f}", f"{compared.ours.cpu:.2f}", f"{count / compared.ours.mean:.0f}"]
        rows.append([f"{count}, {operation}", *took, f"{bare.mean:.2f}", f"{compared.ours.mean / bare.mean:.1f}"])
    print_table(
        "3. The first call after a store appeared, which reads every file, next to opening and reading each", rows
    )


def print_growth(warm: Measured) -> None:
    counts = list(dict.fromkeys(count for count, _ in warm))
    rows = [["operation", *(heading for count in counts[1:] for heading in (f"at {count}", "bare"))]]
    for operation in OPERATIONS:
        least = warm[counts[0], operation]
        row = [operation]
        for compared in (warm[count, operation] for count in counts[1:]):
            way = list(compared.bare)[-1]
            row += [f"{compared.ours.p50 / least.ours.p50:.1f}", f"{compared.bare[way].p50 / least.bare[way].p50:.1f}"]
        rows.append(row)
    if counts[1:]:
        print_table(f"4. Growth: how many times the median at {counts[0]} files", rows)


def _ratios(ours: Timed, bare: Timed) -> list[str]:
    return [f"{ours.p50 / bare.p50:.2f}", f"{min(ours.walls) / min(bare.walls):.2f}"]


if __name__ == "__main__":
    main()
