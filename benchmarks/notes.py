"""How fast notes are: `make bench-notes`. Every figure is measured alternately with a baseline.

The vectors of the notes are drawn by lot, since embedding a hundred thousand texts takes hours; those of questions and
of notes written while measuring are real.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for NumPy, here and in the servers: ours and what it is held to

import argparse
import itertools
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from benchmarks import seeded
from benchmarks.figures import Timed, introduction, load, ms, print_table
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.seeded import SEED, Floats
from benchmarks.texts import NAMESPACES, Texts
from memory_mcp.app import embedding_options, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import NewNote, NoteQuery
from memory_mcp.services.embedding.builtin import Builtin
from memory_mcp.services.search import fts_query
from memory_mcp.settings import Settings

GOAL = 1.5
GOAL_FROM = 100_000  # notes
LIMIT = 20
NOTES_FILE = "notes.db"
SMALL_NAMESPACE = "home"
CASES: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "lexical": {"search_mode": "lexical"},
    "semantic": {"search_mode": "semantic"},
    f"hybrid, {NAMESPACES[SMALL_NAMESPACE]} % of the notes": {"namespace": SMALL_NAMESPACE},
}

WRITERS = BARE, BY_WORDS, BY_MEANING, UNTIL_FOUND = (
    "bare FTS5",
    "memory_create, no embedder",
    "memory_create",
    "the same, until all have vectors",
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    counts: tuple[int, ...] = (1_000, 10_000, 100_000)
    questions: int = 150  # for both ways of searching; a server remembers the vectors of 256
    rounds: int = 3
    calls: int = 150  # of each case through a server
    creates: int = 100  # of each writer in one round


QUICK = Size(counts=(200, 1_000, 4_000), questions=20, rounds=2, calls=20, creates=20)


@dataclass(frozen=True)
class SeededNotes:
    """The same notes twice."""

    count: int
    data_dir: Path
    bare: Path


def main() -> None:
    options = _arguments()
    size = QUICK if options.quick else Size()
    started = time.monotonic()
    embedder = Builtin(embedding_options(Settings()).model_folder)
    if not embedder.is_installed():
        raise SystemExit("The built-in model is missing: run `memory-mcp models pull` first.")
    print(introduction())
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-", dir=options.dir) as folder:
        copies = [_seeded(Path(folder), count) for count in size.counts]
        is_met = measure_cost(size, copies, embedder)
        measure_searches(size, copies)
        measure_memory(copies)
        measure_creates(size, copies)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not is_met:
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-notes ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few notes and few calls, to see that it runs")
    parser.add_argument("--dir", help="where the data directories go: durable writes are as fast as this disk")
    return parser.parse_args()


def _seeded(folder: Path, count: int) -> SeededNotes:
    notes_copy = SeededNotes(count, folder / f"notes-{count}", folder / f"bare-{count}.db")
    seeded.notes_file(notes_copy.data_dir / NOTES_FILE, count)
    seeded.bare_file(notes_copy.bare, count)
    return notes_copy


class Bare:
    """The least a search by words and by meaning can be: FTS5's own ranking and one product in NumPy."""

    def __init__(self, notes_copy: SeededNotes) -> None:
        self._connection = seeded.bare_connection(notes_copy.bare)
        self._vectors = seeded.unit_vectors(notes_copy.count)

    def search(self, question: str, vector: Floats) -> tuple[list[Any], list[Any]]:
        cosines = self._vectors @ vector
        return self._by_words(question), np.argpartition(cosines, len(cosines) - LIMIT)[-LIMIT:].tolist()

    def _by_words(self, question: str) -> list[Any]:
        found = self._connection.execute(
            "SELECT rowid FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?",
            (fts_query.any_of(fts_query.terms(question)), LIMIT),
        )
        return found.fetchall()


def measure_cost(size: Size, copies: list[SeededNotes], embedder: Builtin) -> bool:
    """1. What a hybrid search costs over the bare one, both in this process. Whether the goal is met."""
    rows = [["notes", "p50 ms", "bare", "ratio", "goal", "", "p95 ms", "bare", "CPU ms", "bare", "ratio", "embedding"]]
    is_met = True
    for notes_copy in copies:
        bare, ours, embedding = _compared(size, notes_copy, embedder)
        ratio = ours.p50 / bare.p50
        is_judged = notes_copy.count >= GOAL_FROM
        is_met = is_met and (ratio <= GOAL or not is_judged)
        judged = [f"<= {GOAL}", "met" if ratio <= GOAL else "missed"] if is_judged else ["", ""]
        walls = [ms(ours.p50), ms(bare.p50), f"{ratio:.2f}", *judged, ms(ours.p95), ms(bare.p95)]
        cpu = [ms(ours.cpu_each), ms(bare.cpu_each), f"{ours.cpu_each / bare.cpu_each:.2f}"]
        rows.append([str(notes_copy.count), *walls, *cpu, ms(embedding.p50)])
    print_table("1. A hybrid search over bare FTS5 and one product in NumPy, the question's vector known", rows)
    return is_met


def _compared(size: Size, notes_copy: SeededNotes, embedder: Builtin) -> tuple[Timed, Timed, Timed]:
    """(bare, ours, embedding a question): the same questions, now the one first, now the other."""
    bare, ours, embedding = Timed(), Timed(), Timed()
    questions = Texts(SEED + 1).questions(size.questions)
    vectors = {question: embedder.query(question) for question in questions}
    for question in questions:
        embedding.run(partial(embedder.query, question))
    plain = Bare(notes_copy)
    caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
    settings = Settings(data_dir=notes_copy.data_dir, embedder="builtin", families=("notes",))
    with open_app(settings, serving=False) as app:
        for number, question in itertools.product(range(size.rounds + 1), questions):
            both = (
                (bare, partial(plain.search, question, vectors[question])),
                (ours, partial(app.notes.reader.search, caller, NoteQuery(question, limit=LIMIT))),
            )
            for timed, work in both if number % 2 else reversed(both):
                # The first round is to warm up: from then on the vectors of the questions are known.
                (timed if number else Timed()).run(work)
    return bare, ours, embedding


def measure_searches(size: Size, copies: list[SeededNotes]) -> None:
    """2. memory_search as a client sees it, every question a new one."""
    rows = [["notes and case", "p50 ms", "p95 ms", "longest ms", "CPU ms"]]
    for notes_copy in copies:
        timed = {case: Timed() for case in CASES}
        questions = iter(Texts(SEED + 2).questions((size.calls + 2) * len(CASES)))
        with _server(notes_copy.data_dir, "builtin") as server:
            for number, (case, arguments) in itertools.product(range(size.calls + 2), CASES.items()):
                request = {"query": next(questions), "limit": LIMIT, **arguments}
                _call(server, "memory_search", request, timed[case] if number >= 2 else Timed())
        for case, of in timed.items():
            rows.append([f"{notes_copy.count}, {case}", ms(of.p50), ms(of.p95), ms(max(of.walls)), ms(of.cpu_each)])
    print_table(
        f"2. memory_search, limit {LIMIT}, a new question each time: it is embedded unless the search is lexical", rows
    )


def _server(data_dir: Path, embedder: str) -> ServerProcess:
    server = ServerProcess(memory_mcp(data_dir, "--embedder", embedder, "--log-level", "error"))
    server.shake_hands()
    return server


def _call(server: ServerProcess, tool: str, arguments: dict[str, Any], into: Timed) -> None:
    cpu = server.cpu()
    into.walls.append(server.call(tool, arguments))
    into.cpu += server.cpu() - cpu


def measure_memory(copies: list[SeededNotes]) -> None:
    """3. What a server holds in memory, and how long it takes to pack the vectors."""
    rows = [["notes", "vectors MB", "started MB", "by words MB", "by meaning MB", "peak MB", "first search s"]]
    for notes_copy in copies:
        by_words, by_meaning = ({"query": question} for question in Texts(SEED + 3).questions(2))
        with _server(notes_copy.data_dir, "builtin") as server:
            held = [notes_copy.count * seeded.SPACE.dimensions * 4, server.memory()]
            server.call("memory_search", by_words | {"search_mode": "lexical"})
            held.append(server.memory())
            first = server.call("memory_search", by_meaning)
            held += [server.memory(), server.memory(peak=True)]
        rows.append([str(notes_copy.count), *(f"{size / 1e6:.0f}" for size in held), f"{first:.2f}"])
    print_table(
        "3. Memory of a server, after its first search by words and its first by meaning, which packs the vectors", rows
    )


def measure_creates(size: Size, copies: list[SeededNotes]) -> None:
    """4. memory_create, one call after another, over an insert into a bare full-text table."""
    rows = [["notes and writer", "per second", "p50 ms", "p95 ms", "mean ms", "ratio", "CPU ms"]]
    for notes_copy in copies:
        timed = _created(size, notes_copy)
        for writer, of in timed.items():
            spread = ["", ""] if writer == UNTIL_FOUND else [ms(of.p50), ms(of.p95)]
            mean = [ms(of.mean), f"{of.mean / timed[BARE].mean:.1f}"]
            rows.append([f"{notes_copy.count}, {writer}", f"{1 / of.mean:.0f}", *spread, *mean, ms(of.cpu_each)])
    print_table("4. Durable writes of one client, ratios over an insert into a bare full-text table", rows)


def _created(size: Size, notes_copy: SeededNotes) -> dict[str, Timed]:
    """What a note took each writer, over alternating rounds."""
    timed: dict[str, Timed] = {}
    plain = seeded.bare_connection(notes_copy.bare)
    without, with_vectors = (_copy(notes_copy, embedder) for embedder in ("none", "builtin"))
    with _server(without, "none") as none, _server(with_vectors, "builtin") as builtin:
        for number in range(size.rounds + 1):
            if number < 2:  # the first round is to warm up
                timed = {writer: Timed() for writer in WRITERS}
            notes = list(Texts(SEED + 4 + number).notes(size.creates))
            for note in notes:
                insert = partial(plain.execute, "INSERT INTO bare (text) VALUES (?)", (seeded.bare_text(note),))
                timed[BARE].run(insert)
            for note in notes:
                _call(none, "memory_create", _arguments_of(note), timed[BY_WORDS])
            cpu, started = builtin.cpu(), time.perf_counter()
            for note in notes:
                _call(builtin, "memory_create", _arguments_of(note), timed[BY_MEANING])
            _wait_for_vectors(with_vectors)
            timed[UNTIL_FOUND].walls.append((time.perf_counter() - started) / len(notes))
            timed[UNTIL_FOUND].cpu += (builtin.cpu() - cpu) / len(notes)
    return timed


def _copy(notes_copy: SeededNotes, name: str) -> Path:
    return shutil.copytree(notes_copy.data_dir, notes_copy.data_dir.with_name(f"{notes_copy.data_dir.name}-{name}"))


def _arguments_of(note: NewNote) -> dict[str, Any]:
    given = {"content": note.content, "tags": note.tags, "importance": note.importance, "namespace": note.namespace}
    return given | ({"title": note.title} if note.title else {})


def _wait_for_vectors(data_dir: Path) -> None:
    with closing(apsw.Connection(str(data_dir / NOTES_FILE))) as connection:
        while connection.execute("SELECT 1 FROM embed_queue LIMIT 1").fetchall():
            time.sleep(0.02)


if __name__ == "__main__":
    main()
