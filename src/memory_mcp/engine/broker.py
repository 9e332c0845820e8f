"""The process that has one portal's engine open, for all servers on the machine: `python -m memory_mcp.engine.broker`.

chDB lets one process open a folder, and one folder a process. So the first server that needs a portal starts this; the
others find its socket. It shuts itself in before the engine starts, and leaves when nobody has asked for a while: who
is still connected finds the next one.
"""

import fcntl
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from memory_mcp.engine import archive, frames, landlock, wall, words
from memory_mcp.engine.parameters import Unfit, encoded, literal, prepared
from memory_mcp.engine.wall import DATABASE, LENT

EXPORT_SECONDS = 120
_COUNTED = {  # how the rows of a file are counted without a look at what is in them
    "json": "'JSONAsString', 'row String'",
    "lines": "'JSONAsString', 'row String'",
    "CSVWithNames": "'CSVWithNames', 'row String'",
}
MOST_KNOWN = 1000  # queries
LONGEST_TREE = 64 * 1024 * 1024  # bytes
_CHANGING = {"CREATE", "ALTER", "DROP", "RENAME"}  # what statements start with that change tables
_REPLACING = "_tmp_replace_"  # what the names of tables start with that CREATE OR REPLACE has not finished
LOOK = 0.2  # seconds between two looks whether somebody still asks
STUCK = 5.0  # seconds after which an engine that does not stop for somebody who has left is ended
CLEARING = 30.0  # seconds that an engine stays longer if there is something deleted on the disk
LEAVING = 2.0  # seconds that the one before may take to leave
LEFT_BEHIND = 3600.0  # seconds after which nobody wants a file in staging any more
HERE = Path(__file__).parent

Answer = tuple[dict[str, Any], bytes]


@dataclass(frozen=True)
class Asker:
    """A server at the other end of a wire. It says nothing while it waits for an answer."""

    wire: socket.socket
    tag: str  # of the statements that stop when it leaves

    def has_left(self) -> bool:
        try:
            return not self.wire.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def check_waiting(self) -> None:
        if self.has_left():
            raise ConnectionError("nobody waits for the answer any more")


class Engine:
    """chDB on one folder. Whoever writes does so alone; readers go side by side."""

    def __init__(self, folder: Path) -> None:
        import chdb

        self._chdb = chdb
        self._folder = folder
        self._address = f"{folder / 'db'}?config-file={HERE / 'config.xml'}&backups.allowed_path={folder / 'staging'}"
        self._owner = Connection(self._as_owner)
        self._writing = threading.Lock()
        self._writer: Asker | None = None  # for whom, if that is a statement that stops
        self._looker = Connection(self._as_owner)  # looks at queries while the owner writes
        self._looking = threading.Lock()
        self._clean()
        self._functions = self._listed_functions()
        self._known: dict[str, wall.Vetted] = {}  # queries looked at since tables last came, went or changed

    def _clean(self) -> None:
        """Away with what whoever died while using it has left."""
        for name in self._ask(f"SELECT name FROM system.databases WHERE startsWith(name, '{LENT}')").split():
            self._owner.run(f"DROP DATABASE IF EXISTS {name} SYNC", {})
        for name in self._tables(DATABASE):
            if name.startswith(_REPLACING):
                self._owner.run(f"DROP TABLE IF EXISTS {name} SYNC", {})
        for path in (self._folder / "staging").iterdir():
            with suppress(OSError):  # somebody else was faster
                if path.lstat().st_mtime < time.time() - LEFT_BEHIND:
                    _remove(path)

    def run(self, sql: str, parameters: dict[str, Any], data: bytes) -> bytes:
        """One of our own statements. `data` is what an INSERT is to insert."""
        with self._writing, self._forgetting(sql.split(maxsplit=1)[0] in _CHANGING):
            return self._owner.run(sql, parameters, data)

    def run_for(self, asker: Asker, sql: str, parameters: dict[str, Any], settings: Mapping[str, int]) -> bytes:
        """One of our own statements that stops, or does not start, when its asker leaves. `settings` limit it."""
        with (
            Connection(partial(self._as_owner, asker.tag, settings)) as connection,
            self._writing,
            self._forgetting(sql.split(maxsplit=1)[0] in _CHANGING),
        ):
            asker.check_waiting()
            self._writer = asker
            try:
                return connection.run(sql, parameters)
            finally:
                self._writer = None

    def run_afresh(self, asker: Asker, sql: str, made: str | None, *, stops: bool) -> bytes:
        """A statement that wants a connection of its own: BACKUP and RESTORE after others fail on theirs.

        `made` is what it makes in staging. `stops` is whether it does when its asker leaves.
        """
        with (
            Connection(partial(self._connect, asker.tag if stops else "")) as connection,
            self._writing,
            self._forgetting(True),
            self._making(asker, made),
        ):
            return connection.run(sql, {})

    @contextmanager
    def _making(self, asker: Asker, path: str | None) -> Iterator[None]:
        """A file in staging, which may be there from the first time that it was asked for. It goes again if the block
        fails, or nobody is there to take it."""
        asker.check_waiting()
        if path is None:
            yield
            return
        _remove(self._staged(path))
        try:
            yield
            asker.check_waiting()
        except Exception:
            _remove(self._staged(path))
            raise

    @contextmanager
    def _forgetting(self, changing: bool) -> Iterator[None]:
        """Queries are looked at anew once tables are others."""
        try:
            yield
        finally:
            if changing:
                self._known.clear()

    def _staged(self, path: str) -> Path:
        """By its name alone: nothing else is made or removed for a server."""
        return self._folder / "staging" / Path(path).name

    def reader(self, limits: dict[str, int], tag: str = "") -> "Reader":
        return Reader(Connection(partial(self._as_reader, limits, tag)), self.vetted)

    def stop(self, asker: Asker) -> bool:
        """End what is being done for somebody who has left. Whether there was something."""
        return bool(self._ask("KILL QUERY WHERE Settings['log_comment'] = {tag:String} ASYNC", tag=asker.tag))

    def take_last_turn(self, askers: Collection[Asker]) -> bool:
        """Whether nobody writes, or only one of these: if so, nobody else will."""
        return self._writer in askers or self._writing.acquire(blocking=False)

    def _as_owner(self, tag: str = "", settings: Mapping[str, int] | None = None) -> Any:
        connection = self._connect(tag)
        connection.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        connection.query(f"USE {DATABASE}")
        if settings:
            connection.query("SET " + ", ".join(f"{name} = {int(value)}" for name, value in settings.items()))
        return connection

    def _as_reader(self, limits: dict[str, int], tag: str) -> Any:
        connection = self._connect(tag)
        connection.query(f"USE {DATABASE}")
        connection.query("SET ROLE reader")
        connection.query("SET " + ", ".join(f"{name} = {int(value)}" for name, value in limits.items()))
        connection.query(
            "SET output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 1, "
            "output_format_json_quote_denormals = 0, date_time_output_format = 'iso'"
        )
        connection.query("SET allow_ddl = 0, allow_introspection_functions = 0, readonly = 1")
        return connection

    def export(self, asker: Asker, sql: str, path: str, format_: str, limits: dict[str, int]) -> bytes:
        """Write what a caller's query gives to a file of ours, within these limits. How many rows that was."""
        with self._making(asker, path):
            reader = self.reader(
                {
                    "max_execution_time": EXPORT_SECONDS,
                    "output_format_json_array_of_rows": format_ == "json",
                    "output_format_parallel_formatting": 1,
                    **limits,
                },
                asker.tag,
            )
            try:
                reader.export(sql, path, {"json": "JSONEachRow", "lines": "JSONEachRow"}.get(format_, format_))
            finally:
                reader.close()
            counted = _COUNTED.get(format_, f"'{format_}'")
            with Connection(partial(self._connect, asker.tag)) as connection:
                return connection.run(f"SELECT count() FROM file({literal(path)}, {counted})", {})

    def check_archive(self, name: str) -> bytes:
        """Raises archive.Damaged unless a staged portal file makes plain tables only."""
        try:
            archive.check_statements(self._folder / "staging" / name, self._tree, self._functions)
        except wall.Refused as exc:
            raise archive.Damaged("This portal file holds a statement that cannot be read.") from exc
        return b""

    def check_restored(self, database: str) -> bytes:
        """Raises archive.Damaged unless what RESTORE has made of a file are plain tables only."""
        if self._ask("SELECT engine FROM system.databases WHERE name = {name:String}", name=database) != "Atomic\n":
            raise archive.Damaged("This portal file makes no plain database.")
        sql = "SELECT name, create_table_query FROM system.tables WHERE database = {name:String} FORMAT JSONEachRow"
        for made in map(json.loads, self._ask(sql, name=database).splitlines()):
            try:
                tree = self._tree(made["create_table_query"])
            except wall.Refused as exc:
                raise archive.Damaged("This portal file holds a statement that cannot be read.") from exc
            archive.check_statement(f"metadata/portal/{made['name']}", tree, self._functions)
        return b""

    def vetted(self, sql: str, lent: Mapping[str, str]) -> wall.Vetted:
        """A query as the engine itself would write it down, once it is known to be harmless. Raises wall.Refused.

        `lent` are the databases of other portals that it may read, by what it calls them.
        """
        if lent:
            return self._looked_at(sql, lent)
        vetted = self._known.get(sql)
        if vetted is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            vetted = self._known[sql] = self._looked_at(sql, lent)
        return vetted

    def _looked_at(self, sql: str, lent: Mapping[str, str]) -> wall.Vetted:
        if len(sql) > wall.LONGEST or "\0" in sql:
            raise wall.Refused(f"A query has at most {wall.LONGEST} characters, and no NUL.")
        tables = {database: self._tables(database) for database in (DATABASE, *lent.values())}
        tree = wall.renamed(self._tree(sql), lent, tables)
        wall.check(tree, self._functions, tables)
        try:
            text = self._ask("SELECT formatQueryFromJSON({tree:String})", tree=json.dumps(tree)).removesuffix("\n")
        except Exception as exc:  # chDB raises plain exceptions
            _check_length(exc)
            raise
        if (again := self._tree(text)) != tree:  # written down it became another: that one is run, so look at it too
            wall.check(again, self._functions, tables)
        return wall.Vetted(text, wall.parameters(again))

    def _tree(self, sql: str) -> dict[str, Any]:
        try:
            tree: dict[str, Any] = json.loads(self._ask("SELECT parseQueryToJSON({sql:String})", sql=sql))
        except Exception as exc:  # chDB raises plain exceptions
            _check_length(exc)
            raise wall.Refused(f"This is not one SELECT: {words.said(exc)}") from exc
        return tree

    def has_old_parts(self) -> bool:
        """Whether something that was deleted is still on the disk: the engine removes it while it runs."""
        try:
            found = self._ask(f"SELECT count() FROM system.parts WHERE database = '{DATABASE}' AND NOT active")
        except Exception:  # noqa: BLE001  # chDB raises plain exceptions; whatever it is, the engine must be able to leave
            return False
        return found != "0\n"

    def _tables(self, database: str) -> set[str]:
        return set(self._ask("SELECT name FROM system.tables WHERE database = {name:String}", name=database).split())

    def _ask(self, sql: str, /, **parameters: str) -> str:
        format_ = "" if " FORMAT " in sql else " FORMAT TSVRaw"
        with self._looking:
            return self._looker.run(sql + format_, parameters).decode()

    def _listed_functions(self) -> wall.Functions:
        columns = "name, alias_to, categories, is_aggregate, case_insensitive, origin"
        rows = self._ask(f"SELECT {columns} FROM system.functions FORMAT JSONEachRow").splitlines()
        combinators = "SELECT name FROM system.aggregate_function_combinators WHERE NOT is_internal"
        return wall.Functions.listed(
            map(json.loads, rows),
            self._ask(combinators).split(),
            self._ask("SELECT name FROM system.table_functions").split(),
        )

    def _connect(self, tag: str = "") -> Any:
        connection = self._chdb.connect(self._address)
        # {"a.b": 1} is not {"a": {"b": 1}}. And answers are small: threads to write them take longer than they save.
        connection.query(
            "SET json_type_escape_dots_in_keys = 1, output_format_parallel_formatting = 0, "
            # Trees of queries, and what the engine makes of them, are longer than the queries themselves.
            f"max_query_size = {LONGEST_TREE}, log_comment = {literal(tag)}"
        )
        return connection

    def close(self) -> None:
        self._looker.close()
        self._owner.close()


class Reader:
    """A connection that can only read, and only what the wall lets through."""

    def __init__(self, connection: "Connection", vetted: Callable[[str, Mapping[str, str]], wall.Vetted]) -> None:
        self._connection = connection
        self._vetted = vetted

    def query(self, sql: str, parameters: dict[str, Any], lent: Mapping[str, str]) -> bytes:
        vetted = self._vetted(sql, lent)
        given = {name: prepared(name, value, vetted.parameters.get(name, "")) for name, value in parameters.items()}
        return self._connection.run(f"{vetted.text}\nFORMAT JSONCompact", given)

    def export(self, sql: str, path: str, format_: str) -> None:
        text = self._vetted(sql, {}).text
        self._connection.run(f"{text}\nINTO OUTFILE {literal(path)} FORMAT {format_}", {})

    def close(self) -> None:
        self._connection.close()


class Connection:
    """One connection to the engine, opened anew after a failure: chDB puts what a query had written when it failed
    before the answer of the next."""

    def __init__(self, open_: Callable[[], Any]) -> None:
        self._open = open_
        self._opened = open_()

    def run(self, sql: str, parameters: dict[str, Any], data: bytes = b"") -> bytes:
        given = {"params": {name: encoded(value) for name, value in parameters.items()}} if parameters else {}
        try:
            result: bytes = self._opened.query(f"{sql}\n{data.decode()}" if data else sql, "TSVRaw", **given).bytes()
        except Exception:
            failed, self._opened = self._opened, self._open()
            failed.close()
            raise
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()


class Broker:
    def __init__(self, engine: Engine, path: Path, idle: float) -> None:
        self._engine = engine
        self._path = path
        self._idle = idle
        self._asked_at = time.monotonic()
        self._is_dismissed = False
        self._guard = threading.Lock()
        self._askers: set[Asker] = set()  # those who are being answered

    def serve(self) -> None:
        listening = _listening(self._path)
        threading.Thread(target=self._leave_when_idle, daemon=True).start()
        threading.Thread(target=self._stop_for_who_left, daemon=True).start()
        while True:
            wire, _ = listening.accept()
            threading.Thread(target=self._serve_one, args=(wire,), daemon=True).start()

    def _serve_one(self, wire: socket.socket) -> None:
        reader: Reader | None = None
        asker = Asker(wire, uuid4().hex)
        try:
            with wire:
                hello, _ = frames.receive(wire)
                with self._being_busy(asker):
                    reader = self._engine.reader(hello["limits"], asker.tag)
                    frames.send(wire, {"ok": True, "pid": os.getpid()})
                while True:
                    asked = frames.receive(wire)
                    with self._being_busy(asker):
                        frames.send(wire, *self._answer(asker, reader, *asked))
        except (ConnectionError, OSError):
            pass  # the server has left
        finally:
            if reader:
                reader.close()

    @contextmanager
    def _being_busy(self, asker: Asker) -> Iterator[None]:
        with self._guard:
            self._askers.add(asker)
        try:
            yield
        finally:
            with self._guard:
                self._askers.discard(asker)
                self._asked_at = time.monotonic()

    def _stop_for_who_left(self) -> None:
        """Again and again: what has only just begun is not there to be stopped yet.

        The engine does not listen while it looks at a file to find its columns. Then all of it goes, and whoever still
        needs it starts the next.
        """
        since: dict[Asker, float] = {}
        while True:
            time.sleep(LOOK)
            with self._guard:
                askers = [asker for asker in self._askers if asker.has_left()]
            running = {asker for asker in askers if self._is_stopping(asker)}
            since = {asker: since.get(asker, time.monotonic()) for asker in running}
            is_stuck = since and time.monotonic() - min(since.values()) > STUCK
            if is_stuck and self._engine.take_last_turn(running):
                os._exit(1)

    def _is_stopping(self, asker: Asker) -> bool:
        try:
            return self._engine.stop(asker)
        except Exception:  # noqa: BLE001  # chDB raises plain exceptions; the next look comes soon
            return False

    def _answer(self, asker: Asker, reader: Reader, asked: dict[str, Any], data: bytes) -> Answer:
        try:
            match asked["op"]:
                case "query":
                    return {"ok": True}, reader.query(asked["sql"], asked["parameters"], asked["lent"])
                case "run" if asked["stops"] and not data:
                    return {"ok": True}, self._engine.run_for(
                        asker, asked["sql"], asked["parameters"], asked.get("settings", {})
                    )
                case "run":
                    return {"ok": True}, self._engine.run(asked["sql"], asked["parameters"], data)
                case "run afresh":
                    stops = asked["stops"]
                    return {"ok": True}, self._engine.run_afresh(asker, asked["sql"], asked["made"], stops=stops)
                case "export":
                    made = self._engine.export(asker, asked["sql"], asked["path"], asked["format"], asked["limits"])
                    return {"ok": True}, made
                case "check archive":
                    return {"ok": True}, self._engine.check_archive(asked["name"])
                case "check restored":
                    return {"ok": True}, self._engine.check_restored(asked["database"])
                case "leave":
                    self._is_dismissed = True
                    return {"ok": True}, b""
        except archive.Damaged as exc:
            return {"ok": False, "kind": "damaged", "message": str(exc)}, b""
        except Unfit as exc:
            return {"ok": False, "kind": "unfit", "message": str(exc), "code": 0}, b""
        except wall.TooMuch as exc:
            return {"ok": False, "kind": "too much", "message": str(exc)}, b""
        except wall.Refused as exc:
            return {"ok": False, "kind": "refused", "message": str(exc)}, b""
        except Exception as exc:  # noqa: BLE001  # chDB raises plain exceptions
            kind = "unfit" if words.is_of_a_parameter(exc) else "engine"
            return {"ok": False, "kind": kind, "message": words.said(exc), "code": words.code(exc)}, b""
        return {"ok": False, "kind": "engine", "message": "unknown operation", "code": 0}, b""

    def _leave_when_idle(self) -> None:
        while True:
            time.sleep(LOOK)
            over = time.monotonic() - self._asked_at - self._idle
            if not self._is_dismissed and (over <= 0 or (over < CLEARING and self._engine.has_old_parts())):
                continue
            with self._guard:
                is_over = self._is_dismissed or time.monotonic() - self._asked_at > self._idle
                if not self._askers and is_over:
                    self._path.unlink(missing_ok=True)
                    self._engine.close()
                    os._exit(0)


def _check_length(exc: Exception) -> None:
    """Raises wall.TooMuch if what the engine says is that a query is too long or too deep."""
    if (said := words.said(exc)) in (words.TOO_DEEP, words.TOO_LONG):
        raise wall.TooMuch(said) from exc


def _listening(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    listening.bind(str(path))
    os.umask(before)
    listening.listen(64)
    return listening


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_first(folder: Path, path: Path) -> bool:
    """Whether nobody else has this portal open. The lock goes with the process, and says where its socket is: another
    server's XDG_RUNTIME_DIR may be another."""
    lock = os.open(folder / frames.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LEAVING
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK / 4)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, os.fsencode(path), 0)
            return True


def _shut_in(folder: Path, socket_folder: Path) -> None:
    """The portal's own folder, and what Python and the engine read to run. Nothing else, and no network."""
    os.environ["TMPDIR"] = str(folder / "tmp")
    python = (sys.prefix, sys.base_prefix, *filter(None, sys.path), str(HERE))
    landlock.restrict(
        readable=map(Path, (*python, *_SYSTEM, *(f"/proc/{name}" for name in _PROC))),
        writable=(folder, socket_folder, Path("/dev/null")),
    )


_SYSTEM = (
    *("/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime"),
    *("/dev/urandom", "/sys/fs/cgroup", "/sys/devices/system"),
)
_PROC = (
    *("meminfo", "cpuinfo", "stat", "sys/vm"),
    *("self/maps", "self/statm", "self/status", "self/smaps_rollup", "self/cgroup", "self/mountinfo"),
    # Where it may not read this, chDB takes for it whatever lies behind `environ`, which setting TMPDIR has moved: it
    # then dies as it is loaded if that happens to look right.
    "self/auxv",
)


def main() -> None:
    folder, path, idle = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    if not _is_first(folder, path):
        return
    for name in ("tmp", "staging"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    os.chdir(HERE)  # where config.xml looks for users.xml
    sys.setrecursionlimit(20_000)  # trees of queries are up to 1000 deep, and each level takes a few calls
    threading.stack_size(64 * 1024 * 1024)
    _shut_in(folder, path.parent)
    Broker(Engine(folder), path, idle).serve()


if __name__ == "__main__":
    main()
