"""Notes in PostgreSQL next to notes in SQLite: `make bench-postgres`. The same notes, questions and code on both, in
turns. PostgreSQL is the one that the tests start, or the one of MEMORY_TEST_POSTGRES_URL.

On a busy machine compare processor times, of this process and of a database on the same Linux machine: each round trip
to a database waits for a free core."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tests.postgres import empty, running_server

from benchmarks import seeded
from benchmarks.figures import Timed, introduction, ms, print_table
from benchmarks.texts import Texts
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote, NoteQuery
from memory_mcp.settings import Settings

ENGINES = SQLITE, POSTGRES = "SQLite", "PostgreSQL"
MODES = ("hybrid", "lexical", "semantic")
WRITE_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the notes stay, for the next run of the same code")
    parser.add_argument("--fill", action="store_true", help="only write the notes into the folder")
    chosen = parser.parse_args()
    print(introduction())
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with running_server(is_durable=True, stored_in=folder) as server:
            for count in map(int, chosen.sizes.split(",")):
                _measure(server, folder, count, 0 if chosen.fill else chosen.questions, chosen.rounds)


def _measure(server: str, folder: Path, count: int, questions: int, rounds: int) -> None:
    url = _ensure_database(server, f"notes_{count}")
    with ExitStack() as stack:
        apps = {
            SQLITE: stack.enter_context(_app(folder / str(count) / "sqlite")),
            POSTGRES: stack.enter_context(_app(folder / str(count) / "postgres", database_url=url)),
        }
        for name, app in apps.items():
            _fill(app, count, url if name == POSTGRES else None)
        if not questions:
            return
        texts = list(Texts(seeded.SEED + 1).questions(questions))
        processor = stack.enter_context(processor_of(url))
        figures = ("p50 ms", "processor ms")
        heads = [f"{name}, {figure}" for figure in figures for name in (*ENGINES, "ratio")]
        rows: list[tuple[str, ...]] = [(f"{count} notes", *heads, "equal top 20")]
        rows += [_search(apps, mode, texts, rounds, processor) for mode in MODES]
        print_table("Search", rows)
        written = {name: _writes(app, processor) for name, app in apps.items()}
        rates = [(label, *(written[name][label] for name in ENGINES)) for label in written[SQLITE]]
        print_table("Durable creates", [("", *ENGINES), *rates])


def _ensure_database(server: str, name: str) -> str:
    """The URL of this database of our own server, which is created if it is missing. Another server (of
    MEMORY_TEST_POSTGRES_URL) has one database: its rows are deleted."""
    import psycopg

    if os.environ.get("MEMORY_TEST_POSTGRES_URL"):
        empty(server)
        return server
    with psycopg.connect(server, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            connection.execute(f"CREATE DATABASE {name}".encode())
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def _fill(app: App, count: int, url: str | None) -> None:
    """Write the notes, unless they are there from the last run."""
    db = app.notes._files.of(LOCAL_USER).db
    with db.read() as tx:
        stored = tx.number("SELECT count(*) FROM notes")
    if stored not in (0, count):
        raise SystemExit(f"The folder has {stored} of {count} notes, from a run that was ended. Delete it.")
    if not stored:
        seeded.fill(db, count)
        if url and not os.environ.get("MEMORY_TEST_POSTGRES_URL"):
            analyze(url)


@contextmanager
def _app(data_dir: Path, **more: Any) -> Iterator[App]:
    with open_app(Settings(data_dir=data_dir, families=("notes",), **more), serving=False) as app:
        yield app


def analyze(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


@contextmanager
def processor_of(url: str) -> Iterator[Callable[[], float]]:
    """Gives the processor seconds of this process and of the database's processes so far."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        overhead = 0.0  # what it took to find out

        def seconds() -> float:
            nonlocal overhead
            own = time.process_time()
            total = own - overhead
            for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"):
                with suppress(OSError):  # it is on another machine, or has ended
                    total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
            overhead += time.process_time() - own
            return total

        yield seconds


def _search(
    apps: dict[str, App], mode: Any, texts: list[str], rounds: int, processor: Callable[[], float]
) -> tuple[str, ...]:
    caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
    best: dict[str, list[float]] = {name: [] for name in apps}
    cpu = dict.fromkeys(apps, 0.0)
    equal = 0
    for text in texts:
        query = NoteQuery(text, mode=mode)
        found = [[hit.id for hit in app.notes.reader.hits(caller, query)[0]] for app in apps.values()]
        equal += found[0] == found[1]
        timed = {name: Timed() for name in apps}
        for _ in range(rounds):
            for name, app in apps.items():
                started = processor()
                timed[name].run(partial(app.notes.reader.hits, caller, query))
                cpu[name] += processor() - started
        for name in apps:
            best[name].append(min(timed[name].walls))
    p50 = {name: sorted(best[name])[len(texts) // 2] for name in apps}
    each = {name: seconds / len(texts) / rounds for name, seconds in cpu.items()}
    columns = [
        text
        for figure in (p50, each)
        for text in (ms(figure[SQLITE]), ms(figure[POSTGRES]), f"{figure[POSTGRES] / figure[SQLITE]:.1f}")
    ]
    return mode, *columns, f"{equal}/{len(texts)}"


def _writes(app: App, processor: Callable[[], float]) -> dict[str, str]:
    """A second, and the processor time of each."""
    shown = {}
    for label, count in (("one thread", 1), ("four threads, four tenants", 4)):
        started = processor()
        rate = _rate(app, count, count)
        shown[label] = f"{rate:.0f}/s, {ms((processor() - started) / rate / WRITE_SECONDS)} ms"
    return shown


def _rate(app: App, threads: int, tenants: int) -> float:
    def work(number: int) -> int:
        caller = Caller(f"writer-{number % tenants}", ALL_SCOPES, frozenset({"notes"}))
        count, end = 0, time.perf_counter() + WRITE_SECONDS
        for note in Texts(number).notes(1_000_000):
            if time.perf_counter() > end:
                break
            app.notes.writer.create(caller, Author(), NewNote(note.content, title=note.title, tags=note.tags))
            count += 1
        return count

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads))) / WRITE_SECONDS


if __name__ == "__main__":
    main()
