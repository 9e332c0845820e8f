"""Several servers on one portal, engines and servers that are killed, servers without chDB."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.engines.chdb import client as engine_client
from memory_mcp.engines.chdb import frames
from memory_mcp.engines.chdb import process as engine_process
from memory_mcp.engines.isolation import landlock
from memory_mcp.engines.portal_engine import EngineError
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals import storage
from tests.events import TIMEOUT_S, eventually
from tests.exhaustive import rounds
from tests.families.portals.calls import CALLER, put, query_operation
from tests.processes import environment
from tests.wire import Stdio

PORTAL = "mem://tests/shared"
ROUNDS = int(os.environ.get("MEMORY_MCP_SOAK_ROUNDS", rounds(4, soak=10)))  # `make soak-portals` sets more


def start(data_dir: Path, *flags: str, **env: str) -> Stdio:
    more = {"MEMORY_MCP_PORTAL_ENGINE_IDLE": "1", "MEMORY_MCP_EMBEDDER": "none", **env}
    return Stdio.start(data_dir, *flags, env=environment(**more))


def engine_pid(folder: Path) -> int:
    """Of the process that has a portal open, as it says itself."""
    return int(engine_process.EngineProcess(folder, engine_process.EngineRules()).request({"op": "ping"})["pid"])


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Stdio, Stdio]]:
    servers = start(tmp_path, "--families", "portals"), start(tmp_path, "--families", "portals")
    yield servers
    for server in servers:
        if server.process.poll() is None:
            server.close()


def test_two_servers_see_each_others_writes(two: tuple[Stdio, Stdio]) -> None:
    one, other = two
    for number in range(5):
        for server in two:
            server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": number}])
            for reader in two:
                found = reader.call("portal_query", portalUri=PORTAL, sql="SELECT max(n) AS n FROM t")
                assert found["rows"] == [{"n": number}]
    assert one.call("portal_delete", portalUri=PORTAL, table="t", where={"n": {"lt": 3}})["deleted"] == 6
    assert other.call("portal_view", portalUri=PORTAL)["stats"]["rows"] == 4
    assert other.read(PORTAL)["stats"]["rows"] == 4


def test_a_killed_server_leaves_the_portal_to_the_other(two: tuple[Stdio, Stdio], tmp_path: Path) -> None:
    one, other = two
    one.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    data = [{"n": number} for number in range(2, 50_002)]
    one.post("tools/call", {"name": "portal_write", "arguments": {"portalUri": PORTAL, "table": "t", "data": data}})
    one.kill()

    other.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": -1}])
    [row] = other.call("portal_query", portalUri=PORTAL, sql="SELECT count() AS c, uniqExact(n) AS u FROM t")["rows"]
    assert row["c"] == row["u"]
    assert row["c"] in (2, 50_002)  # whole or not at all
    other.close()
    assert not list((tmp_path / "portals" / "tests" / "shared" / "staging").iterdir())


def _write_until(
    done: threading.Event, who: int, server: Any, acknowledged: list[int], failed: list[BaseException]
) -> None:
    """Write rows one by one. The number of each that was acknowledged, and who wrote it, are added to a list."""
    number = 0
    try:
        while not done.is_set():
            number += 1
            try:
                put(server, "t", [{"n": number, "who": who}])
            except Unavailable as exc:  # the other one held the lock for long, as engines start slowly
                if "Nothing was changed" not in exc.message:
                    raise
            else:
                acknowledged.append(number * 10 + who)
    except BaseException as exc:  # noqa: BLE001  # the test looks at it, and fails
        failed.append(exc)


def test_an_engine_that_is_killed_while_rows_come_in_loses_none_and_doubles_none(tmp_path: Path) -> None:
    chosen = settings.load({"data_dir": tmp_path, "families": "portals"}, environ={}).settings
    acknowledged: list[int] = []
    failed: list[BaseException] = []
    done, killed = threading.Event(), 0
    with open_app(chosen, serving=False) as app, open_app(chosen, serving=False) as second:
        put(app, "t", [{"n": 0, "who": -1}])
        folder = tmp_path / "portals" / "tests" / "shared"

        writers = [
            threading.Thread(target=_write_until, args=(done, who, server, acknowledged, failed))
            for who, server in enumerate((app, second))
        ]
        for writer in writers:
            writer.start()
        while killed < ROUNDS and not failed:
            wanted = len(acknowledged) + 3 + killed % 3  # the writers go on: each kill meets a write at another point
            eventually(lambda wanted=wanted: len(acknowledged) >= wanted or failed)  # type: ignore[misc]
            with suppress(OSError):  # it is just starting
                os.kill(engine_pid(folder), signal.SIGKILL)
                killed += 1
        done.set()
        for writer in writers:
            writer.join()

        assert failed == []
        found = [row["n"] * 10 + row["who"] for row in _all_rows(app)]
        assert len(found) == len(set(found))
        assert sorted(found) == sorted(acknowledged)


def test_a_row_after_those_of_a_killed_server_is_stored_though_the_engine_ends_meanwhile(tmp_path: Path) -> None:
    """The killed server had stored a row, but not yet described it: the next server must count by the engine."""
    chosen = settings.load({"data_dir": tmp_path, "families": "portals"}, environ={}).settings
    folder = tmp_path / "portals" / "tests" / "shared"
    with open_app(chosen, serving=False) as app:
        put(app, "t", [{"n": 1}])
        killed = engine_client.EngineConnections(folder, {"max_execution_time": 5})
        killed.run("INSERT INTO t FORMAT JSONEachRow", data=b'{"n": 2}')
        killed.close()
        os.kill(engine_pid(folder), signal.SIGKILL)  # the app's connection finds out when it sends the next row

        put(app, "t", [{"n": 3}])
        assert query_operation(app, "SELECT n FROM t ORDER BY n") == [{"n": 1}, {"n": 2}, {"n": 3}]
        assert json.loads((folder / "portal.json").read_text())["tables"][0]["rows"] == 3


def _all_rows(app: Any) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = []
    while page := query_operation(
        app, "SELECT n, who FROM t WHERE who >= 0 ORDER BY who, n LIMIT 1000 OFFSET {o:UInt64}", o=len(rows)
    ):
        rows += page
    return rows


def test_an_engine_ends_when_no_server_needs_it_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "portals" / "tests" / "shared"
    server = start(tmp_path, "--families", "portals")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    pid = engine_pid(folder)
    assert server.close() == 0
    eventually(lambda: not _is_alive(pid))

    again = start(tmp_path, "--families", "portals")
    assert again.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")["rows"] == [{"n": 1}]
    assert engine_pid(folder) != pid
    again.close()


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def test_the_end_of_a_crashed_engine_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    others = set(threading.enumerate())
    engine = engine_client.EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    engine.run("SELECT 1")
    waiting = [thread for thread in threading.enumerate() if thread.name == "engine" and thread not in others]
    os.kill(engine_pid(tmp_path / "portal"), signal.SIGKILL)
    for thread in waiting:
        thread.join(timeout=TIMEOUT_S)
    engine.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"The engine of the portal in {tmp_path / 'portal'} ended: Killed."
    ]


_STRANGER = """
import os, socket, sys
os.setuid(65534)
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
    listening.bind(sys.argv[1])
    listening.listen()
    print("listening", flush=True)
    wire, _ = listening.accept()
    print(len(wire.recv(100)), flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_a_socket_of_another_user_is_not_spoken_to() -> None:
    with tempfile.TemporaryDirectory() as name:
        open_folder = Path(name)
        open_folder.chmod(0o777)
        command = [sys.executable, "-c", _STRANGER, str(open_folder / "x.sock")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stranger:
            assert stranger.stdout
            assert stranger.stdout.readline() == "listening\n"
            (open_folder / frames.LOCK).write_text(json.dumps({"socket": str(open_folder / "x.sock")}))
            with pytest.raises(PermissionError):
                engine_process.EngineProcess(open_folder, engine_process.EngineRules()).request({"op": "ping"})
            assert stranger.stdout.readline() == "0\n"  # bytes it was sent


@pytest.mark.parametrize("length", ["short", "long"])
def test_a_folder_that_another_user_has_made_stops_no_portal(length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address too long for a socket has one elsewhere, in a folder of this user's alone."""
    with tempfile.TemporaryDirectory() as name:
        runtime, folder = Path(name), Path(name) / ("portal" if length == "short" else "long" * 30)
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        taken = runtime / f"memory-mcp-{os.getuid()}"
        taken.mkdir()
        taken.chmod(0o777)  # as one that others can enter
        engine = engine_client.EngineConnections(folder, {"max_execution_time": 5})
        assert engine.run("SELECT 1") == b"1\n"
        path = Path(engine_process.read_lock(folder)["socket"])
        engine.end_engine()
        assert (path.parent == folder) == (length == "short")
        assert path.parent != taken
        assert path.parent.stat().st_mode & 0o077 == 0


def test_files_and_folders_of_a_portal_are_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "portals" / "tests" / "mine"
    engine = engine_client.EngineConnections(folder, {"max_execution_time": 5})
    engine.run("CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n")
    pid = engine_pid(folder)
    assert b"mine" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    found = [tmp_path / "portals", *(tmp_path / "portals").rglob("*")]
    engine.end_engine()
    assert [path for path in found if path.exists() and path.lstat().st_mode & 0o077 and not path.is_symlink()] == []


def _three(tmp_path: Path) -> tuple[list[str], list[Path]]:
    names = ["one", "two", "three"]
    return [f"mem://tests/{name}" for name in names], [tmp_path / "portals" / "tests" / name for name in names]


def test_the_least_recently_used_idle_engine_of_a_user_ends_first(tmp_path: Path) -> None:
    portals, folders = _three(tmp_path)
    server = start(tmp_path, "--families", "portals", "--portal-engines", "2", MEMORY_MCP_PORTAL_ENGINE_IDLE="60")
    for number in (0, 1, 0):
        server.call("portal_write", portalUri=portals[number], table="t", data=[{"n": number}])
    wait_for_use(folders[0], after=folders[1])
    server.call("portal_write", portalUri=portals[2], table="t", data=[{"n": 2}])
    assert list(map(engine_process.is_running, folders)) == [True, False, True]
    assert server.call("portal_query", portalUri=portals[1], sql="SELECT n FROM t")["rows"] == [{"n": 1}]
    assert sum(map(engine_process.is_running, folders)) == 2
    server.close()


def wait_for_use(folder: Path, *, after: Path) -> None:
    """Until an engine has noted that it was used later than another: it does so a moment after it was."""
    used, before = folder / frames.LOCK, after / frames.LOCK
    eventually(lambda: used.stat().st_mtime > before.stat().st_mtime)


def test_where_all_engines_of_a_user_are_busy_another_is_refused(tmp_path: Path) -> None:
    portals, _ = _three(tmp_path)
    server = start(tmp_path, "--families", "portals", "--portal-engines", "1", "--portal-seconds", "60")
    server.call("portal_write", portalUri=portals[0], table="t", data=[{"n": 1}])
    sql = "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)"
    request_id = server.post("tools/call", {"name": "portal_query", "arguments": {"portalUri": portals[0], "sql": sql}})
    server.call("portal_view", portalUri=portals[0])
    arguments = {"portalUri": portals[1], "table": "t", "data": [{"n": 1}]}
    refused = server.ask("tools/call", {"name": "portal_write", "arguments": arguments})["result"]["structuredContent"]
    assert (refused["error"], refused["data"]) == ("unavailable", {"retry_after": engine_process.RETRY_AFTER_S})
    server.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
    server.close()


def test_portals_say_what_a_required_sandbox_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    chosen = settings.load({"data_dir": tmp_path, "families": "portals", "portal_sandbox": "required"}, environ={})
    with open_app(chosen.settings) as app, pytest.raises(Unavailable, match=r"portal_sandbox.*Landlock"):
        put(app, "t", [{"n": 1}])
    assert "lacks Landlock" in caplog.text


def test_a_library_in_ld_preload_does_not_reach_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nowhere/allocator.so")
    monkeypatch.setenv("A_SECRET", "TOPSECRET")
    engine = engine_client.EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    engine.run("SELECT 1")
    given = dict(
        entry.split("=", 1)
        for entry in Path(f"/proc/{engine_pid(tmp_path / 'portal')}/environ").read_text().split("\0")
        if entry
    )
    engine.end_engine()
    assert given.keys() & {"LD_PRELOAD", "A_SECRET"} == set()
    assert (given["LC_ALL"], given["TMPDIR"]) == ("C.UTF-8", str(tmp_path / "portal" / "tmp"))


def test_a_connection_in_use_when_the_others_are_closed_is_closed_after_its_answer(tmp_path: Path) -> None:
    engine = engine_client.EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    limited = engine.limited(dict, check=engine.close)  # which is called while the engine works
    assert limited.run("SELECT sleep(0.5)") == b"0\n"
    engine.run("SELECT 1")
    with warnings.catch_warnings(record=True) as unclosed:
        del engine, limited
        gc.collect()
    assert unclosed == []


def test_a_stopped_server_starts_no_engine(tmp_path: Path) -> None:
    with open_app(settings.load({"data_dir": tmp_path, "families": "portals"}, environ={}).settings) as app:
        put(app, "t", [{"n": 1}])
    with pytest.raises(Unavailable, match="stopping"):
        put(app, "t", [{"n": 2}])


def test_calls_whose_clients_leave_while_an_engine_starts_start_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HasLeftError(Exception):
        pass

    def leave() -> None:
        raise HasLeftError

    (tmp_path / "portal").mkdir()
    slow = subprocess.Popen(["sleep", "60"])
    starts: list[subprocess.Popen[bytes]] = []

    def spawn() -> subprocess.Popen[bytes]:
        starts.append(slow)
        return slow

    process = engine_process.EngineProcess(tmp_path / "portal", engine_process.EngineRules())
    monkeypatch.setattr(process, "_spawn", spawn)
    for _ in range(3):
        with pytest.raises(HasLeftError):
            process.connect({"limits": {}}, leave)
    slow.kill()
    slow.wait()
    assert len(starts) == 1


def test_an_engine_that_ends_as_it_starts_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chdb.py").write_text("raise SystemExit(7)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(engine_process, "START_TIMEOUT_S", 3600)
    engine = engine_client.EngineConnections(tmp_path / "portal", {"max_execution_time": 5})
    with pytest.raises(Unavailable, match="ends as soon as it starts"):
        engine.run("SELECT 1")


def test_servers_with_different_runtime_folders_share_an_engine(tmp_path: Path) -> None:
    data, servers = tmp_path / "data", []
    for name in ("a", "b"):
        with tempfile.TemporaryDirectory(prefix=name) as runtime:
            servers.append(start(data, "--families", "portals", XDG_RUNTIME_DIR=runtime))
            servers[-1].call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
            found = servers[0].call("portal_query", portalUri=PORTAL, sql="SELECT count() AS c FROM t")["rows"]
            assert found == [{"c": len(servers)}]
            if name == "b":
                for server in servers:
                    assert server.close() == 0


def test_an_engine_leaves_while_servers_are_connected_and_they_find_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "portals" / "tests" / "shared"
    server = start(tmp_path, "--families", "portals")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    pid = engine_pid(folder)
    eventually(lambda: not _is_alive(pid))
    assert server.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")["rows"] == [{"n": 1}]
    server.close()


def test_a_slow_query_keeps_no_other_call_waiting(tmp_path: Path) -> None:
    chosen = settings.load({"data_dir": tmp_path, "families": "portals", "portal_seconds": 2}, environ={}).settings
    with open_app(chosen, serving=False) as app:
        put(app, "t", [{"n": 1}])
        done = threading.Event()

        def be_slow() -> None:
            with suppress(Invalid):
                query_operation(app, "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)")
            done.set()

        slow = threading.Thread(target=be_slow)
        slow.start()
        assert query_operation(app, "SELECT n FROM t") == [{"n": 1}]
        put(app, "t", [{"n": 2}])
        assert app.portals.view(CALLER, PORTAL).stats.rows == 2
        assert not done.is_set()
        slow.join()


def test_an_engine_removes_leftovers_of_a_killed_one_at_start(tmp_path: Path) -> None:
    folder = tmp_path / "portal"
    engine = engine_client.EngineConnections(folder, {"max_execution_time": 5})
    for name in ("t", "_tmp_replace_x"):  # the second as CREATE OR REPLACE has it until it is done
        engine.run(f"CREATE TABLE {name} (n Int64) ENGINE = MergeTree ORDER BY n")
    for name in ("lent_x", "lent_y"):
        storage.back_up(engine, str(folder / "staging" / name), is_paced=False)
        storage.attach_portal(engine, name, str(folder / "staging" / name))
    shutil.rmtree(folder / "staging" / "lent_y")  # as a server does that cannot reach the engine any more
    for name in ("old.csv", "young.csv"):
        (folder / "staging" / name).touch()
    for name in ("old.csv", "lent_x"):
        os.utime(folder / "staging" / name, (0, 0))
    os.kill(engine_pid(folder), signal.SIGKILL)

    assert engine.run("SELECT count() FROM system.databases WHERE startsWith(name, 'lent_')") == b"0\n"
    assert engine.run("SELECT name FROM system.tables WHERE database = 'portal'") == b"t\n"
    assert [path.name for path in (folder / "staging").iterdir()] == ["young.csv"]
    engine.close()


# Descriptions that are not true any more


def _describe_as(folder: Path, tables: Any) -> None:
    (folder / "portal.json").write_text(json.dumps({"tables": tables}))


def test_a_refused_write_drops_no_table_that_is_not_registered(tmp_path: Path) -> None:
    """As after an import that was killed between its last statement and its note."""
    chosen = settings.load({"data_dir": tmp_path, "families": "portals"}, environ={}).settings
    folder = tmp_path / "portals" / "tests" / "shared"
    with open_app(chosen, serving=False) as app:
        put(app, "other", [{"n": 1}])
        put(app, "imported", [{"n": 1, "text": "kept"}])
        before = [table.name for table in app.portals.view(CALLER, PORTAL).tables]
        stale: list[list[str] | None] = [[], None]
        for tables in stale:
            _describe_as(folder, tables)
            with pytest.raises(Invalid):
                put(app, "imported", [{"n": "no number", "text": "x"}])
            assert query_operation(app, "SELECT n, text FROM imported") == [{"n": 1, "text": "kept"}]
            [described] = app.portals.all(CALLER)
            noted = described.described()
            assert noted
            assert [table.name for table in noted.tables] == before

        _describe_as(folder, None)
        _, found = app.portals.described(CALLER, addresses.parse(PORTAL))
        assert [table.name for table in found] == before


@pytest.mark.parametrize(
    "error",
    [Invalid("too much", code="too_large"), Unavailable("gone"), EngineError("no", 53)],
    ids=["limit", "unavailable", "refused"],
)
def test_whatever_stops_a_write_or_an_import_the_schema_is_as_it_was(
    app: Any, data_dir: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / "imports").mkdir(exist_ok=True)
    (data_dir / "imports" / "x.csv").write_text("n,more\n1,2\n")
    put(app, "t", [{"n": 1}])
    before = [(table.name, table.columns) for table in app.portals.view(CALLER, PORTAL).tables]

    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(storage, "insert", fail)
    monkeypatch.setattr(storage, "move_rows", fail)
    for table in ("t", "fresh"):
        with pytest.raises((Invalid, Unavailable)):
            app.portals.write(CALLER, PORTAL, table, [{"n": 1, "more": 2}])
        with pytest.raises((Invalid, Unavailable)):
            app.portals.imports.import_file(CALLER, PORTAL, "x.csv", "csv", table, lambda *progress: None)
    assert [(table.name, table.columns) for table in app.portals.view(CALLER, PORTAL).tables] == before


# Without portals


def test_without_chdb_portals_say_what_to_install_and_the_rest_works(tmp_path: Path) -> None:
    blocker = tmp_path / "without"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(
        "import sys, importlib.abc\n"
        "class NoChdb(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'chdb': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoChdb())\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'chdb' else real(name, package)\n"
    )
    env = environment(MEMORY_MCP_EMBEDDER="none", PYTHONPATH=str(blocker))
    server = Stdio.start(tmp_path / "data", env=env, is_fresh=True)
    answer = server.ask(
        "tools/call",
        {"name": "portal_write", "arguments": {"portalUri": PORTAL, "table": "t", "data": [{"n": 1}]}},
    )["result"]
    assert answer["isError"]
    assert answer["structuredContent"]["error"] == "unavailable"
    assert "`memory-mcp doctor`, where the server runs" in answer["structuredContent"]["message"]
    assert server.call("memory_create", content="still here")["content"] == "still here"
    assert server.call("commit_memory", scope="vault", key="k", content="v")["committed"] is True
    listed = [tool["name"] for tool in server.ask("tools/list")["result"]["tools"]]
    assert "portal_query" in listed
    server.close()


_LOOK = """
import json, sys
from pathlib import Path
from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
with open_app(settings.load({"data_dir": Path(sys.argv[1]), "embedder": "none"}, environ={}).settings) as app:
    caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset(app.families))
    assert app.portals.all(caller) == []
    children = Path("/proc/self/task").glob("*/children")
    print(json.dumps({
        "modules": [name for name in sys.modules if name.partition(".")[0] in ("chdb", "pandas", "pyarrow", "httpx2")],
        "children": "".join(path.read_text() for path in children).split(),
    }))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_server_that_uses_no_portals_loads_no_chdb_and_starts_no_engine(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, tmp_path], capture_output=True, text=True, check=True, timeout=60
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"modules": [], "children": []}
    assert not (tmp_path / "portals").exists()


def test_listing_portals_starts_no_engine(tmp_path: Path) -> None:
    chosen = settings.load({"data_dir": tmp_path, "families": "portals"}, environ={}).settings
    with open_app(chosen, serving=False) as app:
        put(app, "t", [{"n": 1}])
        os.kill(engine_pid(tmp_path / "portals" / "tests" / "shared"), signal.SIGKILL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_process, "is_installed", lambda: False)
        with open_app(chosen, serving=False) as app:
            [folder] = app.portals.all(CALLER)
            described = folder.described()
            assert described
            assert [table.name for table in described.tables] == ["t"]
            with pytest.raises(Unavailable):
                query_operation(app, "SELECT 1")
