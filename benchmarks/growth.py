"""How searches, memory and disk grow with the number of memories: `make bench-growth`.

A server over stdio for each family and each size, one after another. A million texts cannot be embedded in reasonable
time: the vectors of notes are mixed from those of the LoCoMo conversations, which are real, with a little noise. Data
directories and the figures stay in --dir, so a run that ends early goes on where it was.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for NumPy, here and in the servers

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graph, seeded
from benchmarks.figures import Timed, introduction, load, markdown_table
from benchmarks.growth_chart import PICTURE, chart
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.recall import LOCOMO, read_conversations
from benchmarks.seeded import Floats
from benchmarks.texts import Texts
from memory_mcp.app import embedding_options
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.families.vault import schema, storage
from memory_mcp.services.embedding.builtin import Builtin
from memory_mcp.settings import Settings

SIZES = (1_000, 10_000, 100_000, 1_000_000)
GOAL = 20  # times the cost at 10,000 notes that a search in a million may have
GOAL_SIZES = 10_000, 1_000_000
CALLS = 60
WARM_UPS = 3
SEED = 1
IN_ONE_TRANSACTION = 500
NOISE = 0.3  # the length of what is added to a unit vector at random
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-mcp-benchmarks" / "growth"
Request = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Grown:
    """What one family took with so many memories."""

    family: str
    count: int
    first_s: float  # the first search after the start
    p50_ms: float
    p95_ms: float
    cpu_ms: float  # of the server, the median of the calls
    again_cpu_ms: float  # the same searches again: of notes, the vectors of the questions are known now
    memory_mb: float  # of the server, without files that it maps
    mapped_mb: float
    disk_mb: float

    @property
    def row(self) -> list[str]:
        times = [f"{self.first_s:.2f}", *(f"{value:.2f}" for value in (self.p50_ms, self.p95_ms, self.cpu_ms))]
        sizes = [f"{value:,.0f}" for value in (self.memory_mb, self.mapped_mb, self.disk_mb)]
        return [f"{self.family}, {self.count:,}", *times, f"{self.again_cpu_ms:.2f}", *sizes]


HEADINGS = ["family", "first s", "p50 ms", "p95 ms", "CPU ms", "again", "memory MB", "mapped MB", "disk MB"]


def main() -> None:
    options = _arguments()
    folder = Path(options.dir)
    folder.mkdir(parents=True, exist_ok=True)
    figures = folder / "figures.json"
    known = [Grown(**one) for one in json.loads(figures.read_text())] if figures.exists() else []
    print(introduction(), flush=True)
    for count in options.sizes:
        for family in options.families:
            if any((one.family, one.count) == (family, count) for one in known):
                continue
            started = time.monotonic()
            data_dir = _seeded(folder, FAMILIES[family], count, options.locomo)
            known.append(measure(family, count, data_dir))
            figures.write_text(json.dumps([asdict(one) for one in known], indent=2))
            print(f"{family}, {count:,}: {time.monotonic() - started:.0f} s, {load()}", flush=True)
    known.sort(key=lambda one: (list(FAMILIES).index(one.family), one.count))
    print("\n" + markdown_table([HEADINGS, *(one.row for one in known)]))
    if options.chart:
        PICTURE.write_text(chart(known, time.strftime("%d %B %Y")), encoding="utf-8")
    _judge(known)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-growth ARGS=", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--dir", default=CACHE, help="of data directories and figures; 8 GB for a million notes")
    parser.add_argument("--locomo", type=Path, default=os.environ.get("LOCOMO_PATH") or LOCOMO, help="locomo10.json")
    parser.add_argument("--chart", action="store_true", help=f"write {PICTURE.name}")
    return parser.parse_args()


def measure(family: str, count: int, data_dir: Path) -> Grown:
    flags = ["--embedder", "builtin" if family in ("notes", "recall") else "none", "--log-level", "error"]
    requests = list(islice(SEARCHES[family](), CALLS + WARM_UPS))
    with ServerProcess(memory_mcp(data_dir, *flags)) as server:
        server.shake_hands()
        first_s = server.call(*requests[0])
        for request in requests[1:WARM_UPS]:
            server.call(*request)
        (searches, cpu), (_, again_cpu) = (_timed(server, requests[WARM_UPS:]) for _ in range(2))
        memory, mapped = _memory(server)
    size = sum(path.stat().st_blocks * 512 for path in data_dir.rglob("*") if path.is_file())
    return Grown(
        family,
        count,
        first_s,
        p50_ms=1000 * searches.p50,
        p95_ms=1000 * searches.p95,
        cpu_ms=1000 * cpu,
        again_cpu_ms=1000 * again_cpu,
        memory_mb=memory / 1e6,
        mapped_mb=mapped / 1e6,
        disk_mb=size / 1e6,
    )


def _timed(server: ServerProcess, requests: Sequence[Request]) -> tuple[Timed, float]:
    """And the median of the processor time of a call."""
    timed, costs = Timed(), []
    for request in requests:
        cpu = server.cpu()
        timed.walls.append(server.call(*request))
        costs.append(server.cpu() - cpu)
    return timed, statistics.median(costs)


def _memory(server: ServerProcess) -> tuple[int, int]:
    """(Its own, and of files that it maps) in bytes. The system takes the latter back when others need memory."""
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["RssAnon"].split()[0]) * 1024, int(found["RssFile"].split()[0]) * 1024


def _judge(known: Sequence[Grown]) -> None:
    costs = {one.count: one.again_cpu_ms for one in known if one.family == "notes"}
    few, many = GOAL_SIZES
    if few in costs and many in costs:
        ratio = costs[many] / costs[few]
        verdict = "met" if ratio <= GOAL else "missed"
        print(f"\nA hybrid search in {many:,} notes over {few:,}: {ratio:.1f}, goal <= {GOAL}  {verdict}")
        if ratio > GOAL:
            raise SystemExit(1)


# Searches


def _note_searches(tool: str) -> Iterator[Request]:
    return ((tool, {"query": question}) for question in Texts(SEED + 1).questions(CALLS + WARM_UPS))


def _entity_searches() -> Iterator[Request]:
    words = (question.rstrip("?").split()[-1] for question in Texts(SEED + 2).questions(CALLS + WARM_UPS))
    return (("search_nodes", {"project": graph.PROJECT, "query": word}) for word in words)


SEARCHES: dict[str, Callable[[], Iterator[Request]]] = {
    "vault": lambda: _note_searches("search_memories"),
    "notes": lambda: _note_searches("memory_search"),
    "graph": _entity_searches,
    "recall": lambda: _note_searches("recall_memories"),
}


# Data directories


def _seeded(folder: Path, kind: str, count: int, locomo: Path) -> Path:
    """A data directory, which is made once."""
    data_dir = folder / f"{kind}-{count}"
    done = folder / f"{data_dir.name}.done"
    if not done.exists():
        SEEDERS[kind](data_dir, count, locomo)
        done.touch()
    return data_dir


def _seed_notes(data_dir: Path, count: int, locomo: Path) -> None:
    real = pool(data_dir.parent, locomo)
    path = data_dir / "notes.db"
    path.unlink(missing_ok=True)
    seeded.write(path, count, mixed_vectors(real, count))


def mixed_vectors(real: Floats, count: int) -> Floats:
    """These vectors, and more that are mixed from two of them each."""
    drawing = np.random.default_rng(SEED)
    found = np.empty((count, real.shape[1]), dtype=np.float32)
    for start in range(0, count, 50_000):
        part = found[start : start + 50_000]
        part[:] = 0.75 * real[drawing.integers(0, len(real), len(part))]
        part += 0.4 * real[drawing.integers(0, len(real), len(part))]
        part += NOISE / np.sqrt(real.shape[1]) * drawing.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    found[: len(real)] = real[:count]
    return found


def pool(folder: Path, locomo: Path) -> Floats:
    """The vectors of all turns of LoCoMo, which are made once."""
    stored = folder / "locomo.npy"
    if not stored.exists():
        embedder = Builtin(embedding_options(Settings()).model_folder)
        texts = [turn.text for conversation in read_conversations(locomo) for turn in conversation.utterances]
        np.save(stored, embedder.documents(texts))
    found: Floats = np.load(stored)
    return found.astype(np.float32)


def _seed_vault(data_dir: Path, count: int, locomo: Path) -> None:
    memories = Texts(SEED).memories(count)
    with closing(Database(data_dir / "memory.db", schema.SCHEMA, backups=data_dir, durability="normal")) as db:
        while batch := list(islice(memories, IN_ONE_TRANSACTION)):
            with db.write() as tx:
                for memory in batch:
                    storage.upsert(tx, "", memory)
        index_merge = IndexMerge("vault_words", lambda: [db])
        for _ in range(seeded.MERGES):
            index_merge.merge()


def _seed_graph(data_dir: Path, count: int, locomo: Path) -> None:
    file = data_dir.with_suffix(".jsonl")
    entities = graph.made_entities(Texts(SEED), count)
    with file.open("w", encoding="utf-8") as lines:
        names = []
        for one in entities:
            names.append(one.name)
            lines.write(json.dumps({"type": "entity", **graph.their_entity(one)}) + "\n")
        for relation in graph.made_relations(names, count):
            lines.write(json.dumps({"type": "relation", **graph.their_relation(relation)}) + "\n")
    command = [sys.executable, "-m", "memory_mcp", "graph", "import", str(file), "--project", graph.PROJECT]
    subprocess.run([*command, "--data-dir", str(data_dir)], check=True, stdout=subprocess.DEVNULL)
    file.unlink()


SEEDERS: dict[str, Callable[[Path, int, Path], None]] = {
    "vault": _seed_vault,
    "notes": _seed_notes,
    "graph": _seed_graph,
}
FAMILIES = {"vault": "vault", "notes": "notes", "graph": "graph", "recall": "notes"}
"""The data directories that a family is measured in: recall in those of notes."""


if __name__ == "__main__":
    main()
