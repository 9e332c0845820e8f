"""What goes when a session ends, and what stays."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import pytest

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER
from memory_mcp.errors import Unavailable, Unusable
from memory_mcp.services.sessions import Connection, Session
from tests.events import TIMEOUT_S, eventually
from tests.processes import environment
from tests.wire import FORCED, Stdio, http_server

MINE = environment(MEMORY_MCP_SESSION_ID="mine")


def scratch(data_dir: Path) -> list[str]:
    """The keys of the session called 'mine', read from the file."""
    connection = apsw.Connection(str(data_dir / "memory.db"))
    rows = connection.execute("SELECT key FROM session_memories WHERE session_id = 'mine' ORDER BY id").fetchall()
    connection.close()
    return [str(key) for (key,) in rows]


def remember(server: Stdio, key: str = "k") -> None:
    server.call("commit_memory", scope="session", key=key, content="c")


def test_a_session_ends_with_its_connection(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, env=MINE)
    remember(server)
    server.call("commit_memory", scope="vault", key="stays", content="c")
    server.close()

    assert scratch(tmp_path) == []
    again = Stdio.start(tmp_path)
    assert [memory["key"] for memory in again.read("memory://vault")] == ["stays"]
    again.close()


@pytest.mark.parametrize("ending", ["close", "kill"])
def test_persistent_sessions_stay(tmp_path: Path, ending: str) -> None:
    persisting = {**MINE, "MEMORY_MCP_SESSION_PERSIST": "true"}
    server = Stdio.start(tmp_path, env=persisting)
    remember(server)
    getattr(server, ending)()

    next_one = Stdio.start(tmp_path, env=persisting)
    assert [memory["key"] for memory in next_one.read("memory://session/mine")] == ["k"]
    next_one.close()
    assert scratch(tmp_path) == ["k"]


@pytest.mark.parametrize("ending", ["close", "kill"])
def test_data_of_unnamed_persistent_sessions_expires(tmp_path: Path, ending: str) -> None:
    persisting = environment(MEMORY_MCP_SESSION_PERSIST="true", MEMORY_MCP_SESSION_PERSIST_DAYS="7")
    server = Stdio.start(tmp_path, "--families", "vault", env=persisting)
    remember(server, "old")
    server.call("set_session_id", session_id="mine")
    remember(server, "named")
    getattr(server, ending)()

    def keys_after_another_start() -> list[str]:
        again = Stdio.start(tmp_path, "--families", "vault", env=persisting)
        remember(again, "new")
        again.close()
        connection = apsw.Connection(str(tmp_path / "memory.db"))
        rows = connection.execute("SELECT DISTINCT key FROM session_memories ORDER BY key").fetchall()
        connection.close()
        return [str(key) for (key,) in rows]

    assert keys_after_another_start() == ["named", "new", "old"]
    connection = apsw.Connection(str(tmp_path / "server.db"))
    [(old,)] = connection.execute("SELECT session_id FROM kept_sessions ORDER BY rowid LIMIT 1").fetchall()
    connection.execute("UPDATE kept_sessions SET ended_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-6 days')")
    assert keys_after_another_start() == ["named", "new", "old"]
    aged = "UPDATE kept_sessions SET ended_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-8 days') WHERE session_id = ?"
    connection.execute(aged, (old,))
    connection.close()
    assert keys_after_another_start() == ["named", "new"]
    assert scratch(tmp_path) == ["named"]


def test_a_starting_server_deletes_stale_sessions_and_no_others(tmp_path: Path) -> None:
    killed = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="killed"))
    living = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="living"))
    remember(killed)
    remember(living)
    killed.kill()

    starting = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="killed"))
    assert starting.read("memory://session/killed") == []
    assert len(living.read("memory://session/living")) == 1
    starting.close()
    living.close()
    eventually(lambda: not list((tmp_path / "servers").iterdir()))


def test_a_shared_session_lasts_until_both_processes_end(tmp_path: Path) -> None:
    one, two = Stdio.start(tmp_path, env=MINE), Stdio.start(tmp_path, env=MINE)
    remember(one, "from one")
    remember(two, "from two")
    one.close()

    assert {m["key"] for m in two.read("memory://session/mine")} == {"from one", "from two"}
    two.close()
    assert scratch(tmp_path) == []


def test_a_session_lasts_while_a_reader_uses_it(tmp_path: Path) -> None:
    writer, reader = Stdio.start(tmp_path, env=MINE), Stdio.start(tmp_path)
    remember(writer)
    reader.call("set_session_id", session_id="mine")
    writer.close()

    assert len(reader.read("memory://session/mine")) == 1
    reader.close()
    assert scratch(tmp_path) == []


def test_over_http_delete_ends_a_session(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        session = server.handshake({"name": "c", "version": "1", "extra": {"sessionId": "mine"}})
        arguments = {"scope": "session", "key": "k", "content": "c"}
        server.legacy(session, "tools/call", {"name": "commit_memory", "arguments": arguments})
        assert scratch(tmp_path) == ["k"]
        server.client.delete("/mcp", headers=server.headers(**{"mcp-session-id": session}))
        eventually(lambda: not scratch(tmp_path))


def test_without_a_handshake_an_idle_session_ends(tmp_path: Path) -> None:
    with http_server(tmp_path, "--session-idle", "1") as server:
        named = {"memory-mcp/sessionId": "mine"}
        server.modern_call("commit_memory", named, scope="session", key="k", content="c")
        assert scratch(tmp_path) == ["k"]
        eventually(lambda: not scratch(tmp_path))
        server.modern_call("commit_memory", named, scope="session", key="again", content="c")
        assert scratch(tmp_path) == ["again"]


def test_any_request_keeps_a_session_in_use(tmp_path: Path) -> None:
    with http_server(tmp_path, "--session-idle", "2") as server:
        for name in ("mine", "idle"):
            named = {"memory-mcp/sessionId": name}
            server.modern_call("commit_memory", named, scope="session", key=name, content="c")

        def is_alone() -> bool:
            server.modern("tools/list", None, **{"memory-mcp/sessionId": "mine"})
            return "idle" not in scratch(tmp_path)

        eventually(is_alone)
        assert scratch(tmp_path) == ["mine"]


def test_holds_survive_the_deletion_of_their_file(tmp_path: Path) -> None:
    living, visitor = Stdio.start(tmp_path, env=MINE), Stdio.start(tmp_path, env=MINE)
    remember(living)
    for name in ("server.db", "server.db-wal", "server.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    remember(living, "again")
    remember(visitor, "visited")
    visitor.close()

    assert scratch(tmp_path) == ["k", "again", "visited"]
    living.kill()
    Stdio.start(tmp_path).close()
    assert scratch(tmp_path) == []


def test_a_missing_lock_folder_does_not_stop_a_server(tmp_path: Path) -> None:
    killed = Stdio.start(tmp_path, env=MINE)
    remember(killed)
    killed.kill()
    shutil.rmtree(tmp_path / "servers")

    Stdio.start(tmp_path).close()
    assert scratch(tmp_path) == []


def test_many_sessions_end_fast(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = Stdio.start(tmp_path)
    for number in range(300):
        answer = server.ask(
            "tools/call",
            {
                "name": "commit_memory",
                "arguments": {"scope": "session", "key": "k", "content": "c"},
                "_meta": {"memory-mcp/sessionId": f"s{number}"},
            },
        )
        assert "result" in answer
    server.process.terminate()
    assert server.process.wait(timeout=TIMEOUT_S) == 0
    server.kill()
    assert FORCED not in capfd.readouterr().err


@pytest.mark.parametrize(("served", "other"), [("vault", "_meta.db"), ("graph", "memory.db")])
def test_ending_sessions_creates_no_files_of_unused_families(tmp_path: Path, served: str, other: str) -> None:
    server = Stdio.start(tmp_path, "--families", served, env=MINE)
    if served == "vault":
        remember(server)
    else:
        server.call("create_project", name="house")
    server.close()
    assert not (tmp_path / other).exists()


@pytest.mark.parametrize(("served", "other"), [("vault", "_meta.db"), ("graph", "memory.db")])
def test_a_damaged_file_of_one_family_does_not_prevent_sessions_from_ending(
    tmp_path: Path, served: str, other: str
) -> None:
    (tmp_path / other).write_text("no database " * 100, encoding="utf-8")
    server = Stdio.start(tmp_path, "--families", served, env=MINE)
    if served == "vault":
        remember(server)
    else:
        server.call("create_project", name="house")
    server.close()

    eventually(lambda: not list((tmp_path / "servers").iterdir()))
    path, table = ("memory.db", "session_memories") if served == "vault" else ("_meta.db", "active_projects")
    connection = apsw.Connection(str(tmp_path / path))
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]
    connection.close()


def test_a_busy_family_is_retried_and_a_damaged_one_is_not(app: App) -> None:
    called: list[str] = []
    trouble: dict[str, Exception] = {"broken": Unusable("It is damaged."), "busy": Unavailable("It is busy.")}

    def forgetting(name: str) -> Callable[[str, Sequence[str]], None]:
        def forget(user: str, session_ids: Sequence[str]) -> None:
            called.append(name)
            if name in trouble:
                raise trouble[name]

        return forget

    for name in ("broken", "fine", "busy"):
        app.sessions.on_end(forgetting(name))
    connection = Connection(LOCAL_USER, "s")
    with app.sessions.hold_for_write(LOCAL_USER, Session("s", connection)):
        pass
    with pytest.raises(Unavailable, match="busy"):
        app.sessions.close(connection)
    assert called == ["broken", "fine", "busy"]
    del trouble["busy"]
    app.sessions.end_idle()
    app.sessions.end_idle()  # nothing is left to do
    assert called == ["broken", "fine", "busy"] * 2
