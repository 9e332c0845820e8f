"""How much slower portals are than the bare engine, and how they compare to the same table in SQLite:
`make bench-portals`.

Both sides get the same records and queries, alternately. Ours goes through the operations, the engine process and
the SQL policy; the bare side is chDB in this process with the same durable settings, with the input format that suits
chDB best. A file that the bare side exports is read once for its SHA-256 and synced, as a careful user would do;
before it is imported as db, it is read once more. The time of the engine's statement alone is printed beside that.

Processor time is that of all processes: ours are this one, the engines and the children that read files.
"""

import argparse
import json
import os
import random
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import file_digest
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import introduction, load, ms, print_table
from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.chdb import client
from memory_mcp.engines.chdb.frames import LOCK

SEED = 1
GOAL = 1.3  # times the bare engine, from 1,000 records up
URI = "mem://bench/portal"
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"portals"}))
COLUMNS = "id Int64, name Nullable(String), kind Nullable(String), score Nullable(Float64), ok Nullable(Bool)"
POINT = "SELECT * FROM facts WHERE id = {id:Int64}"
GROUPED = "SELECT kind, count() AS n, avg(score) AS mean FROM facts GROUP BY kind ORDER BY kind"
ENGINE_CONFIG = Path(client.__file__).with_name("config.xml")


@dataclass(frozen=True)
class Size:
    inserts: tuple[tuple[int, int], ...] = ((1, 40), (1_000, 20), (100_000, 3))  # records in a call, calls
    rows: int = 1_000_000
    queries: int = 40
    files: int = 7  # of each format


QUICK = Size(inserts=((1, 10), (1_000, 5)), rows=50_000, queries=10, files=2)


@dataclass(frozen=True)
class Cost:
    """What something took, in seconds."""

    elapsed: float
    processor: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.elapsed + other.elapsed, self.processor + other.processor)


@dataclass
class Times:
    """What one thing took each side."""

    ours: list[Cost] = field(default_factory=list)
    bare: list[Cost] = field(default_factory=list)
    statement: list[Cost] = field(default_factory=list)  # of the bare side, without what makes a file reliable
    sqlite: list[Cost] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-portals ARGS=", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, to see that it runs")
    options = parser.parse_args()
    size = QUICK if options.quick else Size()
    started = time.monotonic()
    print(introduction())
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-") as name, _sides(Path(name)) as sides:
        measured = dict(measure(size, sides))
    is_met = _print_times(measured)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if not is_met and not options.quick:
        raise SystemExit(1)


class Bare:
    """chDB in this process, with the settings of ours."""

    def __init__(self, folder: Path) -> None:
        import chdb

        os.chdir(ENGINE_CONFIG.parent)  # where config.xml looks for users.xml
        self.staging = folder / "staging"
        self.staging.mkdir(parents=True)
        address = f"{folder / 'db'}?config-file={ENGINE_CONFIG}&backups.allowed_path={self.staging}"
        self._connection = chdb.connect(address)
        for statement in ("CREATE DATABASE portal", "USE portal"):
            self._connection.query(statement)
        self._connection.query(f"CREATE TABLE facts ({COLUMNS}) ENGINE = MergeTree ORDER BY id")

    def insert(self, records: list[dict[str, Any]]) -> None:
        self._connection.query(f"INSERT INTO facts FORMAT JSONEachRow\n{json.dumps(records)}")

    def query(self, sql: str, **parameters: Any) -> Any:
        given = {name: str(value) for name, value in parameters.items()}
        return json.loads(self._connection.query(sql, "JSONCompact", params=given).bytes())

    def run(self, sql: str) -> None:
        self._connection.query(sql)


@dataclass(frozen=True)
class Sides:
    app: App
    bare: Bare
    sqlite: sqlite3.Connection
    folder: Path

    def engine(self, uri: str) -> int:
        """The process of a portal's engine."""
        lock = self.folder / "ours" / "portals" / uri.removeprefix("mem://") / LOCK
        return int(json.loads(lock.read_text())["pid"])


@contextmanager
def _sides(folder: Path) -> Iterator[Sides]:
    chosen = settings.load({"data_dir": folder / "ours", "embedder": "none"}, environ={}).settings
    plain = sqlite3.connect(folder / "facts.db", isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute("CREATE TABLE facts (id INTEGER, name TEXT, kind TEXT, score REAL, ok INTEGER)")
    plain.execute("CREATE INDEX facts_id ON facts (id)")
    with open_app(chosen, serving=False) as app:
        yield Sides(app, Bare(folder / "bare"), plain, folder)
    plain.close()


def measure(size: Size, sides: Sides) -> Iterator[tuple[str, Times]]:
    for count, calls in size.inserts:
        yield f"insert {count}", _inserts(sides, count, calls)
    missing = size.rows - sides.app.portals.view(CALLER, URI).stats.rows
    for first in range(0, missing, 100_000):
        _insert(sides, _records(min(100_000, missing - first)), Times())
    choosing = random.Random(SEED)
    ids = [choosing.randrange(size.rows) for _ in range(size.queries)]
    yield "point query", _queries(sides, POINT, [{"id": number} for number in ids])
    yield "aggregate query", _queries(sides, GROUPED, [{} for _ in ids])
    for format_ in ("db", "parquet"):
        out, back = Times(), Times()
        for number in range(size.files):
            _insert(sides, _records(1), Times())  # so that there is something new in each
            _export(sides, format_, number, out)
            _import(sides, format_, number, back)
        yield f"export {format_}", out
        yield f"import {format_}", back


def _inserts(sides: Sides, count: int, calls: int) -> Times:
    times = Times()
    _insert(sides, _records(count), Times())
    for _ in range(calls):
        _insert(sides, _records(count), times)
    return times


_made = 0


def _records(count: int) -> list[dict[str, Any]]:
    global _made  # ids go on from call to call
    first, _made = _made, _made + count
    kinds = ("person", "place", "thing")
    return [
        {"id": n, "name": f"name {n}", "kind": kinds[n % 3], "score": n / 7, "ok": n % 2 == 0}
        for n in range(first, first + count)
    ]


def _insert(sides: Sides, records: list[dict[str, Any]], times: Times) -> None:
    times.ours.append(_timed(lambda: sides.app.portals.write(CALLER, URI, "facts", records), sides.engine(URI)))
    times.bare.append(_timed(lambda: sides.bare.insert(records)))
    times.sqlite.append(_timed(lambda: _insert_plain(sides.sqlite, records)))


def _insert_plain(plain: sqlite3.Connection, records: list[dict[str, Any]]) -> None:
    plain.execute("BEGIN IMMEDIATE")
    plain.executemany("INSERT INTO facts VALUES (:id, :name, :kind, :score, :ok)", records)
    plain.execute("COMMIT")


def _queries(sides: Sides, sql: str, parameter_sets: list[dict[str, Any]]) -> Times:
    times = Times()
    plain = sql.replace("{id:Int64}", ":id").replace("count()", "count(*)")
    for parameters in parameter_sets:
        query = partial(sides.app.portals.query, CALLER, URI, sql, parameters)
        times.ours.append(_timed(query, sides.engine(URI)))
        times.bare.append(_timed(lambda: sides.bare.query(sql, **parameters)))  # noqa: B023
        times.sqlite.append(_timed(lambda: sides.sqlite.execute(plain, parameters).fetchall()))  # noqa: B023
    return times


def _export(sides: Sides, format_: Any, number: int, times: Times) -> None:
    table = None if format_ == "db" else "facts"
    name = f"ours-{number}.{format_}"
    times.ours.append(
        _timed(
            lambda: sides.app.portals.exports.export_file(
                CALLER, URI, name, format_, table, None, lambda *progress: None
            ),
            sides.engine(URI),
        )
    )
    path = _bare_file(sides, format_, number)
    statement = (
        f"BACKUP DATABASE portal TO File('{path}')"
        if format_ == "db"
        else f"SELECT * FROM facts INTO OUTFILE '{path}' FORMAT Parquet"
    )
    times.statement.append(_timed(lambda: sides.bare.run(statement)))
    times.bare.append(times.statement[-1] + _timed(lambda: _keep(path)))


def _bare_file(sides: Sides, format_: str, number: int) -> Path:
    return sides.bare.staging / f"bare-{number}.{'tar' if format_ == 'db' else format_}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _keep(path: Path) -> None:
    """Make a file durable and known: its SHA-256, and the file and its name on the disk."""
    _digest(path)
    for one in (path, path.parent):
        fd = os.open(one, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def _import(sides: Sides, format_: Any, number: int, times: Times) -> None:
    imports = sides.folder / "ours" / "imports"
    imports.mkdir(exist_ok=True)
    name = f"ours-{number}.{format_}"
    shutil.copy(sides.folder / "ours" / "exports" / name, imports)
    target = f"mem://bench/{format_}"
    sides.app.portals.write(CALLER, target, "other", [{"n": 1}])  # so that its engine runs
    table = None if format_ == "db" else "facts"
    times.ours.append(
        _timed(
            lambda: sides.app.portals.imports.import_file(CALLER, target, name, format_, table, lambda *progress: None),
            sides.engine(target),
        )
    )
    path = _bare_file(sides, format_, number)
    if format_ == "db":
        statement, reading = f"RESTORE DATABASE portal AS again FROM File('{path}')", _timed(lambda: _digest(path))
    else:
        sides.bare.run("CREATE DATABASE again")
        sides.bare.run("CREATE TABLE again.facts AS facts")
        statement, reading = f"INSERT INTO again.facts SELECT * FROM file('{path}', Parquet)", Cost(0.0, 0.0)
    times.statement.append(_timed(lambda: sides.bare.run(statement)))
    times.bare.append(times.statement[-1] + reading)
    sides.app.portals.delete(CALLER, target, "facts", None, confirm=True)  # and the next comes to a new table again
    sides.bare.run("DROP DATABASE again SYNC")


def _timed(work: Callable[[], object], engine: int | None = None) -> Cost:
    """`engine` is the process that works for this one."""
    before, started = _processor_s(engine), time.perf_counter()
    work()
    return Cost(time.perf_counter() - started, _processor_s(engine) - before)


def _processor_s(engine: int | None) -> float:
    """What this process, its children that have ended, and an engine have used. Linux only."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = time.process_time() + children.ru_utime + children.ru_stime
    if engine is None:
        return used_s
    with suppress(OSError):  # it was idle for long, and has ended
        used_s += time.clock_gettime((~engine << 3) | 2)  # the kernel's number for the clock of a process
    return used_s


def _print_times(measured: dict[str, Times]) -> bool:
    head = ["what", "ms", "bare chDB", "ratio", "goal", "", "CPU ms", "bare", "ratio"]
    rows = [[*head, "statement alone", "SQLite", "ratio"]]
    are_met = []
    for name, times in measured.items():
        ours, bare = _medians(times.ours), _medians(times.bare)
        ratio = ours.elapsed / bare.elapsed
        goal = ["", ""] if name == "insert 1" else [f"≤ {GOAL}", "met" if ratio <= GOAL else "missed"]
        are_met.append("missed" not in goal)
        processor = [ms(ours.processor), ms(bare.processor), f"{ours.processor / bare.processor:.2f}"]
        alone = ms(_medians(times.statement).elapsed) if times.statement else ""
        plain = _medians(times.sqlite).elapsed if times.sqlite else None
        of_sqlite = ["", ""] if plain is None else [ms(plain), f"{ours.elapsed / plain:.2f}"]
        rows.append([name, ms(ours.elapsed), ms(bare.elapsed), f"{ratio:.2f}", *goal, *processor, alone, *of_sqlite])
    print_table("Portals, next to the bare engine and to the same table in SQLite (medians)", rows)
    return all(are_met)


def _medians(costs: Sequence[Cost]) -> Cost:
    return Cost(median(cost.elapsed for cost in costs), median(cost.processor for cost in costs))


if __name__ == "__main__":
    main()
