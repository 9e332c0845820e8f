"""How fast graphs are next to @modelcontextprotocol/server-memory, and what of two clients' writes each keeps:
`make bench-graph`.

Both get the same graph and the same calls over stdio, alternately. The npm package goes to .compat, which git ignores.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.figures import Timed, introduction, load, ms, print_table
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.texts import Texts
from memory_mcp.families.graph.model import NamedRelation, NewEntity

PACKAGE = "@modelcontextprotocol/server-memory"
VERSION = "2026.8.31"
MEMORY_MCP = Path(sys.executable).with_name("memory-mcp")
NPM = Path(__file__).parent.parent / ".compat" / "server-memory"

SEED = 1
OBSERVATIONS = 3  # of each entity
RELATIONS = 2  # of each entity that a graph starts with
BATCH_SIZE = 10  # entities or relations in one call
CALLS_PER_TURN = 10  # calls of the one before those of the other
PROJECT = "benchmark"
WRITE_GOAL = 10.0  # times as fast
WRITE_GOAL_AT = 10_000  # entities
WRITERS = 2
WRITES = 100  # of each

OPERATIONS = CREATE, RELATE, SEARCH, READ = "create_entities", "create_relations", "search_nodes", "read_graph, all"
KINDS = ("person", "project", "technology", "concept", "place")
RELATION_TYPES = ("uses", "knows", "depends_on", "part_of", "likes")

Request = tuple[str, dict[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    counts: tuple[int, ...] = (1_000, 10_000, 100_000)
    entities: int = 1_000
    relations: int = 2_000
    searches: int = 500
    readings: int = 3
    few_from: int = 100_000  # entities from which on server-memory, seconds a call by then, gets only
    few: int = 6  # times for each operation


QUICK = Size(counts=(1_000,))


@dataclass(frozen=True)
class Work:
    """What both are to do in a graph."""

    entities: list[NewEntity]
    relations: list[NamedRelation]
    words: list[str]


class Contender(Protocol):
    """One of the two, with a graph of its own."""

    server: ServerProcess

    def create(self, entities: Sequence[NewEntity]) -> Request: ...

    def relate(self, relations: Sequence[NamedRelation]) -> Request: ...

    def search(self, word: str) -> Request: ...

    def read(self) -> tuple[float, list[str]]:
        """Seconds that reading everything took, and the names of all entities."""


class Ours:
    def __init__(self, data_dir: Path) -> None:
        self.server = ServerProcess(memory_mcp(data_dir, "--log-level", "error"))

    def create(self, entities: Sequence[NewEntity]) -> Request:
        return "create_entities", {"project": PROJECT, "entities": [vars(one) for one in entities]}

    def relate(self, relations: Sequence[NamedRelation]) -> Request:
        new = [
            {"from": relation.source, "to": relation.target, "relation_type": relation.relation_type}
            for relation in relations
        ]
        return "create_relations", {"project": PROJECT, "relations": new}

    def search(self, word: str) -> Request:
        return "search_nodes", {"project": PROJECT, "query": word}

    def read(self) -> tuple[float, list[str]]:
        seconds, names, offset = 0.0, [], 0
        while True:
            taken, page = self.server.timed_answer("read_graph", {"project": PROJECT, "offset": offset})
            seconds += taken
            names += _names(page)
            more = re.search(r"offset (\d+)", page.get("notice") or "")
            if more is None:
                return seconds, names
            offset = int(more[1])


class Theirs:
    def __init__(self, file: Path) -> None:
        script = NPM / "node_modules" / PACKAGE / "dist" / "index.js"
        self.server = ServerProcess((_program("node"), script), quiet=True, MEMORY_FILE_PATH=str(file))

    def create(self, entities: Sequence[NewEntity]) -> Request:
        return "create_entities", {"entities": [their_entity(one) for one in entities]}

    def relate(self, relations: Sequence[NamedRelation]) -> Request:
        return "create_relations", {"relations": [their_relation(relation) for relation in relations]}

    def search(self, word: str) -> Request:
        return "search_nodes", {"query": word}

    def read(self) -> tuple[float, list[str]]:
        seconds, graph = self.server.timed_answer("read_graph", {})
        return seconds, _names(graph)


def their_entity(one: NewEntity) -> dict[str, Any]:
    return {"name": one.name, "entityType": one.entity_type, "observations": list(one.observations)}


def their_relation(relation: NamedRelation) -> dict[str, Any]:
    return {"from": relation.source, "to": relation.target, "relationType": relation.relation_type}


def _names(graph: dict[str, Any]) -> list[str]:
    return [entity["name"] for entity in graph["entities"]]


@dataclass
class TimedReading(Timed):
    received_bytes: int = 0  # in all

    @property
    def bytes_per_s(self) -> float:
        return self.received_bytes / sum(self.walls)


def main() -> None:
    options = _arguments()
    size = QUICK if options.quick else Size()
    size = replace(size, counts=tuple(options.counts or size.counts))
    started = time.monotonic()
    install()
    print(f"{introduction()}\n{PACKAGE} {VERSION}, Node {_output(_program('node'), '--version').strip()}")
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-", dir=options.dir) as folder:
        are_met = [measure_operations(size, Path(folder)), measure_race(Path(folder))]
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not all(are_met):
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-graph ARGS=", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", help="how many entities there are, the fewest first")
    parser.add_argument("--quick", action="store_true", help="only the smallest graph, to see that it runs")
    parser.add_argument("--dir", help="where the graphs go: durable writes are as fast as this disk")
    return parser.parse_args()


def install() -> None:
    """The package, unless it is there already in this version."""
    manifest = NPM / "node_modules" / PACKAGE / "package.json"
    if manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8"))["version"] == VERSION:
        return
    shutil.rmtree(NPM, ignore_errors=True)
    NPM.mkdir(parents=True)
    options = ("--prefix", str(NPM), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
    _output(_program("npm"), "install", *options, f"{PACKAGE}@{VERSION}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is missing: install Node.js to run the server that ours is compared with.")
    return found


def _output(*command: str | Path) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def measure_operations(size: Size, folder: Path) -> bool:
    """1. and 2. The same calls of both in ever larger graphs. Whether ours is as much faster as it is to be."""
    timed: dict[tuple[int, str], tuple[Timed, Timed]] = {}
    for count in size.counts:
        for operation, both in _alternate(size, folder, count):
            timed[count, operation] = both
    is_met = _print_times(timed)
    _print_bytes(timed)
    _print_growth(timed)
    return is_met


def _alternate(size: Size, folder: Path, count: int) -> Iterator[tuple[str, tuple[Timed, Timed]]]:
    """Each operation with what its calls took (ours, theirs) in graphs of this many entities."""
    data_dir, file, work = _seeded(size, folder, count)
    few = size.few if count >= size.few_from else None
    ours, theirs = Ours(data_dir), Theirs(file)
    requests: dict[str, Callable[[Contender], list[Request]]] = {
        CREATE: lambda side: [side.create(some) for some in _batches(work.entities)],
        RELATE: lambda side: [side.relate(some) for some in _batches(work.relations)],
        SEARCH: lambda side: [side.search(word) for word in work.words],
    }
    with _begun(ours), _begun(theirs):
        for operation, make_requests in requests.items():
            their_requests = make_requests(theirs)[: few and few + 1]
            yield operation, _called(ours.server, make_requests(ours), theirs.server, their_requests)
        yield READ, _read(1 if few else size.readings, (ours, theirs), count)


def _called(
    ours: ServerProcess, our_requests: Sequence[Request], theirs: ServerProcess, their_requests: Sequence[Request]
) -> tuple[Timed, Timed]:
    """What the calls took, some of the one, then some of the other. The first of each is to warm up."""
    both = ((ours, our_requests, Timed()), (theirs, their_requests, Timed()))
    for server, requests, _ in both:
        server.call(*requests[0])
    for first in range(1, max(len(our_requests), len(their_requests)), CALLS_PER_TURN):
        for server, requests, timed in both:
            cpu = server.cpu()
            timed.walls += [server.call(*request) for request in requests[first : first + CALLS_PER_TURN]]
            timed.cpu += server.cpu() - cpu
    return both[0][2], both[1][2]


def _read(readings: int, sides: Sequence[Contender], least: int) -> tuple[TimedReading, TimedReading]:
    """The time of reading everything, for each side. Raises if a side left entities out."""
    timed = TimedReading(), TimedReading()
    for side, into in list(zip(sides, timed, strict=True)) * readings:
        cpu, received_bytes = side.server.cpu(), side.server.received_bytes
        seconds, names = side.read()
        into.received_bytes += side.server.received_bytes - received_bytes
        into.walls.append(seconds)
        into.cpu += side.server.cpu() - cpu
        if len(set(names)) < least:
            raise SystemExit(f"Only {len(set(names))} of {least} entities were read.")
    return timed


def _print_times(timed: dict[tuple[int, str], tuple[Timed, Timed]]) -> bool:
    headings = ["entities and operation", "ms", "theirs", "ratio", "goal", "", "p50 ms", "theirs", "CPU ms", "theirs"]
    rows, are_met = [headings], []
    for (count, operation), (ours, theirs) in timed.items():
        ratio = theirs.mean / ours.mean
        goal = WRITE_GOAL if count == WRITE_GOAL_AT and operation in (CREATE, RELATE) else 1.0
        are_met.append(ratio > goal)
        walls = [ms(ours.mean), ms(theirs.mean), f"{ratio:.1f}", f"> {goal:.0f}", "met" if are_met[-1] else "missed"]
        others = [ms(ours.p50), ms(theirs.p50), ms(ours.cpu_each), ms(theirs.cpu_each)]
        rows.append([f"{count}, {operation}", *walls, *others])
    print_table(
        f"1. A call, on average: {BATCH_SIZE} entities of {OBSERVATIONS} observations, or {BATCH_SIZE} relations", rows
    )
    return all(are_met)


def _print_bytes(timed: dict[tuple[int, str], tuple[Timed, Timed]]) -> None:
    """Ours answers with more: ids, times and who wrote."""
    rows = [["entities", "MB", "theirs", "MB a second", "theirs", "ratio"]]
    for (count, _), both in timed.items():
        readings = [one for one in both if isinstance(one, TimedReading)]
        if readings:
            sizes = [f"{one.received_bytes / len(one.walls) / 1e6:.2f}" for one in readings]
            ours, theirs = (one.bytes_per_s / 1e6 for one in readings)
            rows.append([str(count), *sizes, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"])
    print_table("1b. Bytes of answers while everything is read", rows)


def _print_growth(timed: dict[tuple[int, str], tuple[Timed, Timed]]) -> None:
    counts = list(dict.fromkeys(count for count, _ in timed))
    rows = [["operation", *(heading for count in counts[1:] for heading in (f"at {count}", "theirs"))]]
    for operation in OPERATIONS:
        least = timed[counts[0], operation]
        pairs = [zip(timed[count, operation], least, strict=True) for count in counts[1:]]
        rows.append([operation, *(f"{grown.mean / small.mean:.1f}" for pair in pairs for grown, small in pair)])
    if counts[1:]:
        print_table(f"2. Growth: how many times the average at {counts[0]} entities", rows)


def measure_race(folder: Path) -> bool:
    """3. Two servers, each with its client, write to one graph at the same time. Whether ours keeps every write."""
    data_dir, file = folder / "race", folder / "race.jsonl"
    rows = [["server", "acknowledged", "kept", "lost", "goal", ""]]
    with _begun(Ours(data_dir)) as server:
        server.call("create_project", {"name": PROJECT})
    ours, theirs = (_raced(start) for start in (lambda: Ours(data_dir), lambda: Theirs(file)))
    is_met = ours == (WRITERS * WRITES, WRITERS * WRITES)
    for name, (acknowledged, kept), judged in (
        ("ours", ours, [f"{WRITERS * WRITES} kept", "met" if is_met else "missed"]),
        ("theirs", theirs, ["", ""]),
    ):
        rows.append([name, str(acknowledged), str(kept), str(acknowledged - kept), *judged])
    print_table(
        f"3. A race: {WRITERS} clients with a server each write {WRITES} entities to one graph, one a call", rows
    )
    return is_met


def _begun(side: Contender) -> ServerProcess:
    side.server.shake_hands()
    return side.server


def _raced(start: Callable[[], Contender]) -> tuple[int, int]:
    """How many writes were acknowledged, and how many of those a server that starts later can read."""
    acknowledged: set[str] = set()
    line = threading.Barrier(WRITERS)

    def write(side: Contender, entities: Sequence[NewEntity]) -> None:
        line.wait()
        for entity in entities:
            try:
                side.server.call(*side.create([entity]))
            except RuntimeError as exc:
                print(f"  refused: {exc}")
            else:
                acknowledged.add(entity.name)

    sides = [start() for _ in range(WRITERS)]
    shares = [list(made_entities(Texts(SEED + 5 + number), WRITES, f"{number}-")) for number in range(WRITERS)]
    threads = [threading.Thread(target=write, args=pair) for pair in zip(sides, shares, strict=True)]
    with ExitStack() as running:
        for side in sides:
            running.enter_context(_begun(side))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    later = start()
    with _begun(later):
        return len(acknowledged), len(acknowledged & set(later.read()[1]))


def _seeded(size: Size, folder: Path, count: int) -> tuple[Path, Path, Work]:
    """A data directory and a file with the same graph of this many entities, and what is to be done in it."""
    data_dir, file = folder / f"graph-{count}", folder / f"graph-{count}.jsonl"
    entities = list(made_entities(Texts(SEED), count))
    names = [entity.name for entity in entities]
    # One more call of each is there to warm up.
    relations = made_relations(names, count * RELATIONS + size.relations + BATCH_SIZE)
    seeded, further = relations[: count * RELATIONS], relations[count * RELATIONS :]
    lines = [{"type": "entity", **their_entity(entity)} for entity in entities]
    lines += [{"type": "relation", **their_relation(relation)} for relation in seeded]
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    _output(MEMORY_MCP, "graph", "import", file, "--project", PROJECT, "--data-dir", data_dir)
    new = list(made_entities(Texts(SEED + 1), size.entities + BATCH_SIZE, "new-"))
    return data_dir, file, Work(new, further, _words(size.searches + 1))


def made_entities(texts: Texts, count: int, prefix: str = "") -> Iterator[NewEntity]:
    choosing = random.Random(SEED)
    memories = texts.memories(count * OBSERVATIONS, prefix)
    for some in zip(*[memories] * OBSERVATIONS, strict=True):
        yield NewEntity(some[0].key, choosing.choice(KINDS), tuple(memory.content for memory in some))


def made_relations(names: Sequence[str], count: int) -> list[NamedRelation]:
    """Between any two, none twice."""
    choosing = random.Random(SEED)
    relations: dict[NamedRelation, None] = {}
    while len(relations) < count:
        relations[NamedRelation(choosing.choice(names), choosing.choice(names), choosing.choice(RELATION_TYPES))] = None
    return list(relations)


def _words(count: int) -> list[str]:
    """Single ones that mean something, common ones and rare ones."""
    return [question.rstrip("?").split()[-1] for question in Texts(SEED + 2).questions(count)]


def _batches(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[first : first + BATCH_SIZE] for first in range(0, len(items), BATCH_SIZE)]


if __name__ == "__main__":
    main()
