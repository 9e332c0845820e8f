"""The process that has one portal's engine open, for all servers on the machine. It is started as
`python -m memory_mcp.engines.chdb.broker`.

chDB lets one process open a folder, and one folder a process. So the first server that needs a portal starts this; the
others find its socket. It shuts itself in before the engine starts, and leaves when nobody has asked for a while: who
is still connected finds the next one.
"""

import json
import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from memory_mcp.engines.chdb import archive, error_messages, frames, peer, sandbox, sql_policy
from memory_mcp.engines.chdb.data_types import DataTypes
from memory_mcp.engines.chdb.deadlines import POLL_INTERVAL_S, EngineClient, OpenRequests
from memory_mcp.engines.chdb.parameters import Unfit, encoded, literal, prepared
from memory_mcp.engines.chdb.priority import Priority
from memory_mcp.engines.chdb.process import ENDED_ITSELF, HELLO_TIMEOUT_S
from memory_mcp.engines.chdb.sql_policy import ATTACHED_PREFIX, DATABASE
from memory_mcp.engines.files.lock import lock_handle

_COUNTED = {  # how the rows of a file are counted without a look at what is in them
    "json": "'JSONAsString', 'row String'",
    "lines": "'JSONAsString', 'row String'",
    "CSVWithNames": "'CSVWithNames', 'row String'",
}
MAX_CACHED_QUERIES = 1000  # queries
MAX_RESULT_BYTES = 4 * 1024 * 1024  # of the rows a query gives, as JSON; answers to callers are far smaller
MAX_TREE_BYTES = 64 * 1024 * 1024  # bytes
_CHANGING = {"CREATE", "ALTER", "DROP", "RENAME"}  # what statements start with that change tables
_REPLACING = "_tmp_replace_"  # what the names of tables start with that CREATE OR REPLACE has not finished
WRITER_GRACE_S = 5.0  # for the statement that writes, before an engine ends itself
MAX_THREADS = min(4, os.cpu_count() or 1)  # for one statement of the server
MAX_SOCKET_PATH_BYTES = 100  # macOS allows 104 with the final zero
LEAVE_GRACE_S = 2.0  # for the engine before this one, or for the requests of this one when its folder is gone
LEFT_BEHIND = 3600.0  # seconds after which nobody wants a file in staging any more
HERE = Path(__file__).parent

Answer = tuple[dict[str, Any], bytes]


class Engine:
    """chDB on one folder. Whoever writes does so alone; readers go side by side."""

    def __init__(self, folder: Path) -> None:
        import chdb

        self._chdb = chdb
        self._folder = folder
        self._address = f"{folder / 'db'}?config-file={HERE / 'config.xml'}&backups.allowed_path={folder / 'staging'}"
        self._owner = ChdbConnection(self._as_owner)
        self._writing = threading.Lock()
        self._writer: EngineClient | None = None  # for whom, if that is a statement that stops
        self._looker = ChdbConnection(self._as_owner)  # looks at queries while the owner writes
        self._looking = threading.Lock()
        self._clean()
        self._functions = self._listed_functions()
        self._known: dict[str, sql_policy.Vetted] = {}  # queries looked at since tables last came, went or changed

    def _clean(self) -> None:
        """Away with what whoever died while using it has left."""
        for name in self._ask(f"SELECT name FROM system.databases WHERE startsWith(name, '{ATTACHED_PREFIX}')").split():
            self._owner.run(f"DROP DATABASE IF EXISTS {name} SYNC", {})
        for name in self._tables(DATABASE):
            if name.startswith((_REPLACING, frames.UNFINISHED_COPY)):
                self._owner.run(f"DROP TABLE IF EXISTS {name} SYNC", {})
        for path in (self._folder / "staging").iterdir():
            with suppress(OSError):  # somebody else was faster
                if path.lstat().st_mtime < time.time() - LEFT_BEHIND:
                    _remove(path)

    def run(self, sql: str, parameters: dict[str, Any], data: bytes, client: EngineClient | None = None) -> bytes:
        """One of our own statements. `data` is what an INSERT is to insert. It does not start if its client has left:
        others may hold the portal's lock by then."""
        with self._writing, self._forgetting(sql.split(maxsplit=1)[0] in _CHANGING):
            if client:
                client.check_waiting()
            return self._owner.run(sql, parameters, data)

    def run_for(self, client: EngineClient, sql: str, parameters: dict[str, Any], settings: Mapping[str, int]) -> bytes:
        """One of our own statements that stops, or does not start, when its client leaves. `settings` limit it."""
        with (
            ChdbConnection(partial(self._as_owner, client.tag, settings)) as connection,
            self._writing,
            self._forgetting(sql.split(maxsplit=1)[0] in _CHANGING),
        ):
            client.check_waiting()
            self._writer = client
            try:
                return connection.run(sql, parameters)
            finally:
                self._writer = None

    def run_afresh(self, client: EngineClient, sql: str, made: str | None, *, stops: bool) -> bytes:
        """A statement that wants a connection of its own: BACKUP and RESTORE after others fail on theirs.

        `made` is what it makes in staging. `stops` is whether it does when its client leaves.
        """
        with (
            ChdbConnection(partial(self._connect, client.tag if stops else "")) as connection,
            self._writing,
            self._forgetting(True),
            self._making(client, made),
        ):
            return connection.run(sql, {})

    @contextmanager
    def _making(self, client: EngineClient, path: str | None) -> Iterator[None]:
        """A file in staging, which may be there from the first time that it was asked for. It goes again if the block
        fails, or nobody is there to take it."""
        client.check_waiting()
        if path is None:
            yield
            return
        _remove(self._staged(path))
        try:
            yield
            client.check_waiting()
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
        return Reader(ChdbConnection(partial(self._as_reader, limits, tag)), self.vetted)

    def stop(self, client: EngineClient) -> bool:
        """Stop the statements of a client that has left. Whether there were any."""
        return bool(self._ask("KILL QUERY WHERE Settings['log_comment'] = {tag:String} ASYNC", tag=client.tag))

    def wait_for_writer(self, clients: Collection[EngineClient]) -> None:
        """Wait until the statement that writes has ended, unless it is for one of these clients. No other begins."""
        if self._writer not in clients:
            self._writing.acquire(timeout=WRITER_GRACE_S)

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

    def export(self, client: EngineClient, sql: str, path: str, format_: str, limits: dict[str, int]) -> bytes:
        """Write what a caller's query gives to a file of ours, within these limits. How many rows that was."""
        with self._making(client, path):
            reader = self.reader(
                {
                    "output_format_json_array_of_rows": format_ == "json",
                    "output_format_parallel_formatting": 1,
                    **limits,
                },
                client.tag,
            )
            try:
                reader.export(sql, path, {"json": "JSONEachRow", "lines": "JSONEachRow"}.get(format_, format_))
            finally:
                reader.close()
            counted = _COUNTED.get(format_, f"'{format_}'")
            with ChdbConnection(partial(self._connect, client.tag)) as connection:
                return connection.run(f"SELECT count() FROM file({literal(path)}, {counted})", {})

    def check_archive(self, name: str) -> bytes:
        """Raises archive.Damaged unless a staged portal file makes plain tables only."""
        try:
            archive.check_statements(self._folder / "staging" / name, self._tree, self._functions)
        except sql_policy.QueryRefused as exc:
            raise archive.DamagedArchive("This portal file holds a statement that cannot be read.") from exc
        return b""

    def check_restored(self, database: str) -> bytes:
        """Raises archive.Damaged unless what RESTORE has made of a file are plain tables only."""
        if self._ask("SELECT engine FROM system.databases WHERE name = {name:String}", name=database) != "Atomic\n":
            raise archive.DamagedArchive("This portal file makes no plain database.")
        sql = "SELECT name, create_table_query FROM system.tables WHERE database = {name:String} FORMAT JSONEachRow"
        for made in map(json.loads, self._ask(sql, name=database).splitlines()):
            try:
                tree = self._tree(made["create_table_query"])
            except sql_policy.QueryRefused as exc:
                raise archive.DamagedArchive("This portal file holds a statement that cannot be read.") from exc
            archive.check_statement(f"metadata/portal/{made['name']}", tree, self._functions)
        return b""

    def vetted(self, sql: str, lent: Mapping[str, str]) -> sql_policy.Vetted:
        """A query as the engine itself would write it down, once it is known to be harmless. Raises wall.Refused.

        `lent` are the databases of other portals that it may read, by what it calls them.
        """
        if lent:
            return self._looked_at(sql, lent)
        vetted = self._known.get(sql)
        if vetted is None:
            if len(self._known) >= MAX_CACHED_QUERIES:
                self._known.clear()
            vetted = self._known[sql] = self._looked_at(sql, lent)
        return vetted

    def _looked_at(self, sql: str, lent: Mapping[str, str]) -> sql_policy.Vetted:
        if len(sql) > sql_policy.MAX_QUERY_CHARS or "\0" in sql:
            raise sql_policy.QueryRefused(f"A query has at most {sql_policy.MAX_QUERY_CHARS} characters, and no NUL.")
        tables = {database: self._tables(database) for database in (DATABASE, *lent.values())}
        tree = sql_policy.renamed(self._tree(sql), lent, tables)
        sql_policy.check(tree, self._functions, tables)
        try:
            text = self._ask("SELECT formatQueryFromJSON({tree:String})", tree=json.dumps(tree)).removesuffix("\n")
        except Exception as exc:  # chDB raises plain exceptions
            _check_length(exc)
            raise
        if (again := self._tree(text)) != tree:  # written down it became another: that one is run, so look at it too
            sql_policy.check(again, self._functions, tables)
        return sql_policy.Vetted(text, sql_policy.parameters(again))

    def _tree(self, sql: str) -> dict[str, Any]:
        try:
            tree: dict[str, Any] = json.loads(self._ask("SELECT parseQueryToJSON({sql:String})", sql=sql))
        except Exception as exc:  # chDB raises plain exceptions
            _check_length(exc)
            raise sql_policy.QueryRefused(f"This is not one SELECT: {error_messages.said(exc)}") from exc
        return tree

    def _tables(self, database: str) -> set[str]:
        return set(self._ask("SELECT name FROM system.tables WHERE database = {name:String}", name=database).split())

    def _ask(self, sql: str, /, **parameters: str) -> str:
        format_ = "" if " FORMAT " in sql else " FORMAT TSVRaw"
        with self._looking:
            return self._looker.run(sql + format_, parameters).decode()

    def _listed_functions(self) -> sql_policy.Functions:
        columns = "name, alias_to, categories, is_aggregate, case_insensitive, origin"
        rows = self._ask(f"SELECT {columns} FROM system.functions FORMAT JSONEachRow").splitlines()
        types = "SELECT name, alias_to, case_insensitive FROM system.data_type_families FORMAT JSONEachRow"
        combinators = "SELECT name FROM system.aggregate_function_combinators WHERE NOT is_internal"
        return sql_policy.Functions.listed(
            map(json.loads, rows),
            self._ask(combinators).split(),
            self._ask("SELECT name FROM system.table_functions").split(),
            DataTypes.listed(map(json.loads, self._ask(types).splitlines())),
        )

    def _connect(self, tag: str = "") -> Any:
        connection = self._chdb.connect(self._address)
        # {"a.b": 1} is not {"a": {"b": 1}}. And answers are small: threads to write them take longer than they save.
        connection.query(
            "SET json_type_escape_dots_in_keys = 1, output_format_parallel_formatting = 0, "
            # Trees of queries, and what the engine makes of them, are longer than the queries themselves.
            f"max_query_size = {MAX_TREE_BYTES}, max_threads = {MAX_THREADS}, log_comment = {literal(tag)}"
        )
        return connection

    def close(self) -> None:
        self._looker.close()
        self._owner.close()


class Reader:
    """A connection that can only read, and only what the wall lets through."""

    def __init__(
        self, connection: "ChdbConnection", vetted: Callable[[str, Mapping[str, str]], sql_policy.Vetted]
    ) -> None:
        self._connection = connection
        self._vetted = vetted

    def query(self, sql: str, parameters: dict[str, Any], lent: Mapping[str, str]) -> bytes:
        vetted = self._vetted(sql, lent)
        given = {name: prepared(name, value, vetted.parameters.get(name, "")) for name, value in parameters.items()}
        began = time.perf_counter()
        lines = self._connection.run(f"{vetted.text}\nFORMAT JSONCompactEachRowWithNamesAndTypes", given)
        return _pack_result(lines, time.perf_counter() - began)

    def export(self, sql: str, path: str, format_: str) -> None:
        text = self._vetted(sql, {}).text
        self._connection.run(f"{text}\nINTO OUTFILE {literal(path)} FORMAT {format_}", {})

    def close(self) -> None:
        self._connection.close()


def _pack_result(lines: bytes, elapsed_s: float) -> bytes:
    """A result as one JSON object, with the first rows that fit; none if the first alone does not. A server that parses
    all rows would need many times their size in memory."""
    names, types, *rest = lines.split(b"\n", 2)
    rows = rest[0].removesuffix(b"\n") if rest else b""
    is_cut = len(rows) > MAX_RESULT_BYTES
    if is_cut:
        rows = rows[: max(rows.rfind(b"\n", 0, MAX_RESULT_BYTES), 0)]
    meta = [{"name": name, "type": type_} for name, type_ in zip(json.loads(names), json.loads(types), strict=True)]
    header = json.dumps({"meta": meta, "isCut": is_cut, "elapsedSeconds": elapsed_s})
    return header[:-1].encode() + b', "data": [' + rows.replace(b"\n", b",") + b"]}"


class ChdbConnection:
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


class PortalFolderHandle:
    """The open folder that an engine was started for: no other folder can get its inode meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = frames.folder_identity(self._handle)

    def is_in_place(self) -> bool:
        """Whether it still lies where it was."""
        return frames.folder_identity(self.path) == self.identity


class Broker:
    def __init__(
        self, engine: Engine, folder: PortalFolderHandle, listening: socket.socket, lock: int, idle_s: float
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._listening = listening
        self._lock = lock
        self._idle_s = idle_s
        self._is_dismissed = False
        self.requests = OpenRequests()

    def serve(self) -> None:
        for watch in (self._leave_when_idle, self._stop_abandoned, self._end_when_stuck):
            threading.Thread(target=watch, daemon=True).start()
        self._listening.listen(64)
        while True:
            wire, _ = self._listening.accept()
            threading.Thread(target=self._serve_one, args=(wire,), daemon=True).start()

    def _serve_one(self, wire: socket.socket) -> None:
        with suppress(OSError), wire:  # the server has left
            if not peer.identify(wire).is_trusted():
                return
            hello, _ = frames.receive(wire)
            if hello["folder"] != self._folder.identity:  # the client means another folder, which has the same path now
                return
            if "op" in hello:
                frames.send(wire, self._control(hello["op"]))
            else:
                self._serve_requests(EngineClient(wire, uuid4().hex), hello["limits"])

    def _control(self, op: str) -> dict[str, Any]:
        """What is answered without chDB, which may be stuck."""
        if op == "leave":
            self._is_dismissed = True
        elif op == "leave if idle":
            with self.requests.none_open() as is_idle:
                self._is_dismissed = self._is_dismissed or is_idle
            return {"ok": is_idle}
        return {"ok": True, "pid": os.getpid()}

    def _serve_requests(self, client: EngineClient, limits: dict[str, int]) -> None:
        reader: Reader | None = None
        try:
            with self.requests.track(client, HELLO_TIMEOUT_S, stops=True) as request:
                reader = self._engine.reader(limits, client.tag)
                request.answer({"ok": True, "pid": os.getpid()})
            while True:
                asked, data = frames.receive(client.wire)
                stops = asked["op"] in ("query", "export") or (asked["stops"] and not data)
                with self.requests.track(client, asked["timeout_s"], stops=stops) as request:
                    request.answer(*self._answer(client, reader, asked, data))
        finally:
            if reader:
                reader.close()

    def _stop_abandoned(self) -> None:
        """Again and again: what has only just begun is not there to be stopped yet."""
        while True:
            time.sleep(POLL_INTERVAL_S)
            for request in self.requests.abandoned():
                with suppress(Exception):  # chDB raises plain exceptions; the next look comes soon
                    self._engine.stop(request.client)

    def _end_when_stuck(self) -> None:
        """Does not use chDB, which may be stuck."""
        while True:
            time.sleep(POLL_INTERVAL_S)
            if stuck := self.requests.stuck():
                self.requests.end_overdue()
                self._engine.wait_for_writer({request.client for request in stuck})
                self.requests.end_overdue()
                sys.stderr.write("The engine ends: a request did not stop at its limit, or when its client left.\n")
                sys.stderr.flush()
                os._exit(ENDED_ITSELF)

    def _answer(self, client: EngineClient, reader: Reader, asked: dict[str, Any], data: bytes) -> Answer:
        try:
            match asked["op"]:
                case "query":
                    return {"ok": True}, reader.query(asked["sql"], asked["parameters"], asked["lent"])
                case "run" if asked["stops"] and not data:
                    return {"ok": True}, self._engine.run_for(
                        client, asked["sql"], asked["parameters"], asked.get("settings", {})
                    )
                case "run":
                    return {"ok": True}, self._engine.run(asked["sql"], asked["parameters"], data, client)
                case "run afresh":
                    stops = asked["stops"]
                    return {"ok": True}, self._engine.run_afresh(client, asked["sql"], asked["made"], stops=stops)
                case "export":
                    made = self._engine.export(client, asked["sql"], asked["path"], asked["format"], asked["limits"])
                    return {"ok": True}, made
                case "check archive":
                    return {"ok": True}, self._engine.check_archive(asked["name"])
                case "check restored":
                    return {"ok": True}, self._engine.check_restored(asked["database"])
        except archive.DamagedArchive as exc:
            return {"ok": False, "kind": "damaged", "message": str(exc)}, b""
        except Unfit as exc:
            return {"ok": False, "kind": "unfit", "message": str(exc), "code": 0}, b""
        except sql_policy.TooMuch as exc:
            return {"ok": False, "kind": "too much", "message": str(exc)}, b""
        except sql_policy.QueryRefused as exc:
            return {"ok": False, "kind": "refused", "message": str(exc)}, b""
        except Exception as exc:  # noqa: BLE001  # chDB raises plain exceptions
            kind = "unfit" if error_messages.is_of_a_parameter(exc) else "engine"
            return {
                "ok": False,
                "kind": kind,
                "message": error_messages.said(exc),
                "code": error_messages.code(exc),
            }, b""
        return {"ok": False, "kind": "engine", "message": "unknown operation", "code": 0}, b""

    def _leave_when_idle(self) -> None:
        """Also leave when the folder was moved or deleted: chDB uses paths, and another folder may be there now."""
        noted_at = 0.0
        while True:
            time.sleep(POLL_INTERVAL_S)
            if not self._folder.is_in_place():
                self.requests.wait_for_none(LEAVE_GRACE_S)
                os._exit(0)
            if noted_at != self.requests.last_at:
                noted_at = self.requests.last_at
                used_at = time.time() - (time.monotonic() - noted_at)
                os.utime(self._lock, (used_at, used_at))  # for servers that look for the engine that is idle longest
            with self.requests.none_open() as is_idle:
                is_over = self._is_dismissed or time.monotonic() - self.requests.last_at > self._idle_s
                if is_idle and is_over:
                    _unlink(self._listening)
                    self._engine.close()
                    os._exit(0)


def _check_length(exc: Exception) -> None:
    """Raises wall.TooMuch if what the engine says is that a query is too long or too deep."""
    if (said := error_messages.said(exc)) in (error_messages.TOO_DEEP, error_messages.TOO_LONG):
        raise sql_policy.TooMuch(said) from exc


def _bind(folder: Path) -> socket.socket:
    """A socket in the portal's folder, or, if its address were too long, in one that no other user can enter."""
    path = folder / "engine.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        name = sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
        path = _runtime_folder() / f"{name}.sock"
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(path))
    return bound


def _runtime_folder() -> Path:
    """This user's alone. Where another user has made one by that name, one with a random name takes its place."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    is_usable = runtime and len(runtime) < 50 and os.access(runtime, os.W_OK)
    base = Path(runtime if is_usable else "/tmp")  # noqa: S108  # TMPDIR may be long, and is the engine's own
    folder = base / f"memory-mcp-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=base))


def _unlink(bound: socket.socket) -> None:
    with suppress(OSError):  # it may lie where the sandbox lets nothing be removed
        Path(bound.getsockname()).unlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _lock(folder: Path) -> int | None:
    """The lock of a portal, which goes with the process; None if another process has the portal open."""
    lock = os.open(folder / frames.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not lock_handle(lock, LEAVE_GRACE_S, poll_interval_s=POLL_INTERVAL_S / 4):
        return None
    os.ftruncate(lock, 0)
    return lock


def main() -> None:
    os.umask(0o077)
    orders = json.loads(sys.stdin.buffer.read())
    folder = Path(orders["folder"])
    handle = PortalFolderHandle(folder)
    if (lock := _lock(folder)) is None or not handle.is_in_place():
        return
    os.pwrite(lock, json.dumps({"pid": os.getpid()}).encode(), 0)
    for name in ("tmp", "staging"):
        (folder / name).mkdir(exist_ok=True)
    priority = Priority()
    if orders["niceness"]:
        priority.set(orders["niceness"])
    listening = _bind(folder)
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "socket": listening.getsockname()}).encode(), 0)
    os.chdir(HERE)  # where config.xml looks for users.xml
    sys.setrecursionlimit(20_000)  # trees of queries are up to 1000 deep, and each level takes a few calls
    threading.stack_size(64 * 1024 * 1024)
    sandbox.enter(folder, readable=[HERE])
    engine = Engine(folder)
    broker = Broker(engine, handle, listening, lock, orders["idle_s"])
    adjust = partial(priority.adjust, orders["niceness"], broker.requests.longest_processor_s)
    threading.Thread(target=adjust, daemon=True).start()
    broker.serve()


if __name__ == "__main__":
    main()
