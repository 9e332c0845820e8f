"""Sessions with a handshake have limits, and where one is reached an idle session ends."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, Caller
from memory_mcp.server.open_sessions import OpenSessions
from memory_mcp.services.sessions import operations
from memory_mcp.settings import load
from tests.processes import run
from tests.wire import Http, http_server

MAX_USER, MAX_ALL = 3, 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    flags = ["--embedder", "none", "--max-user-sessions", str(MAX_USER), "--max-sessions", str(MAX_ALL)]
    with http_server(tmp_path_factory.mktemp("caps"), *flags) as running:
        yield running


def user(server: Http, name: str) -> Http:
    for command in (["users", "add", name], ["keys", "create", "--user", name, "--name", "k"]):
        done = run(*command, "--data-dir", server.data_dir, "--json", check=True)
    return replace(server, key=json.loads(done.stdout)["key"])


def is_open(who: Http, session: str) -> bool:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = who.client.post("/mcp", json=message, headers=who.headers(**{"mcp-session-id": session}))
    assert answer.status_code in (200, 404)
    return answer.status_code == 200


def test_a_user_at_the_limit_loses_the_oldest_idle_session(server: Http) -> None:
    eve, ann = user(server, "eve"), user(server, "ann")
    mine = [server.handshake() for _ in range(2)]
    first, second, third = (eve.handshake() for _ in range(3))
    assert is_open(eve, first)  # from now on the second is the longest idle
    fourth = eve.handshake()
    assert [is_open(eve, session) for session in (second, first, third, fourth)] == [False, True, True, True]
    # All users together are at the limit now: the user with the most loses one, the longest idle first.
    hers = ann.handshake()
    assert [is_open(eve, session) for session in (first, third, fourth)] == [False, True, True]
    assert all(is_open(server, session) for session in mine)
    assert is_open(ann, hers)


def test_a_session_with_an_open_stream_ends_after_those_without() -> None:
    ended: list[str] = []
    now = 0.0
    sessions = OpenSessions(max_per_user=2, max_total=100, now=lambda: now)
    for name in ("streaming", "idle", "new"):
        now += 1
        sessions.add(name, "eve", lambda name=name: ended.append(name))  # type: ignore[misc]
        if name == "streaming":
            stream = sessions.request(name)
            stream.__enter__()
    assert ended == ["idle"]
    stream.__exit__(None, None, None)
    sessions.remove("new")
    sessions.add("another", "eve", lambda: ended.append("another"))
    assert ended == ["idle"]


def test_clients_without_connections_are_limited_by_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_USER_CLIENTS_WITHOUT_HANDSHAKE", 3)
    monkeypatch.setattr(operations, "MAX_CLIENTS_WITHOUT_HANDSHAKE", 4)
    eve, ann = (Caller(name, ALL_SCOPES, frozenset()) for name in ("eve", "ann"))
    with open_app(load({"data_dir": tmp_path, "embedder": "none"}, environ={}).settings, serving=False) as app:
        hers = app.sessions.connection_without_handshake(ann, "hers")
        many = [app.sessions.connection_without_handshake(eve, f"name {number}") for number in range(3)]
        assert (
            app.sessions.connection_without_handshake(eve, "name 0") is many[0]
        )  # from now on name 1 is the longest idle
        app.sessions.connection_without_handshake(eve, "one more")
        assert [each.closed for each in many] == [False, True, False]
        app.sessions.connection_without_handshake(ann, "second")
        assert [each.closed for each in many] == [False, True, True]
        assert not hers.closed
