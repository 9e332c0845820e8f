import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.events import TIMEOUT_S, eventually
from tests.processes import run
from tests.wire import FORCED, HELLO, Http, http_server, modern_meta

ROUTES = [
    *("/", "/healthz", "/readyz", "/metrics", "/sign-in", "/mcp", "/mcp/sse", "/mcp/messages", "/nothing"),
    *("/api/overview", "/api/journal", "/api/events", "/api/openapi.json"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("http")) as running:
        yield running


def test_only_the_first_start_prints_a_link_and_a_key(tmp_path: Path) -> None:
    with http_server(tmp_path) as first:
        assert first.key is not None
        assert f"Open     {first.url}/" in first.printed
        for client in ("Claude Code", "Cursor", "VS Code"):
            assert client in first.printed
        assert first.printed.count(first.key) == 5  # by itself, and in a line for each client and for connect
        key = first.key
    with http_server(tmp_path) as second:
        assert second.key is None
        assert "keys create" in second.printed
        second.key = key
        assert second.modern_call("commit_memory", scope="vault", key="k", content="c")["committed"]


@pytest.mark.parametrize("route", ROUTES)
def test_host_and_origin_are_checked_on_every_route(server: Http, route: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert server.client.request(method, route, headers={"Host": "evil.example"}).status_code == 421
        refused = server.client.request(method, route, headers={"Origin": "http://evil.example"})
        assert refused.status_code == 403
        assert refused.json()["error"] == "invalid"
    assert server.client.get("/healthz", headers={"Origin": "null"}).status_code == 403
    two = [("Origin", "http://localhost"), ("Origin", "http://evil.example")]
    assert server.client.get("/healthz", headers=two).status_code == 403
    assert server.client.get("/healthz", headers={"Origin": "http://localhost:6274"}).status_code == 200
    assert server.client.get("/healthz", headers={"Host": "LOCALHOST:1"}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        *("http://127.0.0.1:99999", "http://127.0.0.1:0", "http://127.0.0.1:", "http://127.0.0.1:80a"),
        *("http://127.0.0.1/path", "http://user@127.0.0.1", "http://127.0.0.1:80:80", "ftp://127.0.0.1", "127.0.0.1"),
        *("http://[::1", "http://127.0.0.1#"),
    ],
)
def test_malformed_origins_are_refused(server: Http, origin: str) -> None:
    raw = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nOrigin: %s\r\n\r\n" % origin.encode()
    assert raw_answer(server, raw).startswith(b"HTTP/1.1 403 ")


def test_hosts_with_invalid_ports_are_refused(server: Http) -> None:
    assert server.client.get("/healthz", headers={"Host": "127.0.0.1:99999"}).status_code == 421


def test_metrics_are_refused_to_other_origins(server: Http) -> None:
    own = server.client.get("/metrics", headers={"Origin": server.url})
    assert (own.status_code, "access-control-allow-origin" in own.headers) == (200, False)
    for headers in ({"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "same-site"}):
        refused = server.client.get("/metrics", headers=headers)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
    page = server.client.get("/healthz", headers={"Origin": "http://localhost:3000"})
    assert "access-control-allow-origin" not in page.headers
    mcp = server.client.options("/mcp", headers=server.headers(Origin="http://localhost:3000"))
    assert mcp.headers["access-control-allow-origin"] == "http://localhost:3000"


def test_a_resumed_stream_starts_with_the_next_event(server: Http) -> None:
    headers = server.headers(**{"mcp-session-id": server.handshake(), "Last-Event-ID": "42"})
    with server.client.stream("GET", "/mcp", headers=headers) as stream:
        assert stream.status_code == 200
        server.modern_call("commit_memory", scope="vault", key="after the gap", content="c")
        assert "list_changed" in next(events_of(stream))[1]


@pytest.mark.parametrize("order", [0, 1])
def test_a_request_with_two_lengths_is_refused(server: Http, order: int) -> None:
    lengths = [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]
    head = b"POST /api/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(lengths[:: -1 if order else 1])
    smuggled = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = raw_answer(server, head + b"\r\n" + smuggled)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1  # the connection is closed before what follows is read


def raw_answer(server: Http, sent: bytes) -> bytes:
    """All that comes back until the server closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_names_in_lists_stay_on_one_line(server: Http) -> None:
    server.modern_call("commit_memory", scope="vault", key="one line", content="c")
    key = "two\nlines\u202eturned"  # no such name is taken any more: this one is older, or another program's
    connection = apsw.Connection(str(server.data_dir / "memory.db"))
    connection.set_busy_timeout(10_000)
    connection.execute("UPDATE vault_memories SET key = ? WHERE key = 'one line'", (key,))
    connection.close()
    names: list[str] = []
    cursor = None
    while cursor is not None or not names:
        page = server.modern("resources/list", {"cursor": cursor} if cursor else {})["result"]
        names += [resource["name"] for resource in page["resources"]]
        cursor = page.get("nextCursor")
    assert [name for name in names if "lines" in name] == ["two\\nlines\\u202eturned"]


@pytest.mark.parametrize("route", ["/mcp", "/mcp/sse", "/mcp/messages"])
@pytest.mark.parametrize(
    ("header", "word"),
    [
        ({}, "missing_bearer"),
        ({"Authorization": "Basic abc"}, "missing_bearer"),
        ({"Authorization": "Bearer"}, "missing_bearer"),
        ({"Authorization": "Bearer nonsense"}, "invalid_token"),
        ({"Authorization": "Bearer mmcp_aaaaaaaaaaaa_" + "x" * 43}, "invalid_token"),
    ],
)
def test_without_a_valid_key_nothing_is_reached(server: Http, route: str, header: dict[str, str], word: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = server.client.request(method, route, headers=header)
        assert answer.status_code == 401
        assert answer.json()["error"] == word
        assert answer.headers["www-authenticate"].startswith("Bearer")


def keys(data_dir: Path, *arguments: str) -> dict[str, Any]:
    done = run("keys", *arguments, "--data-dir", data_dir, "--json", check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_key_revoked_by_another_process_stops(server: Http) -> None:
    made = keys(server.data_dir, "create", "--name", "short")
    bearer = {"Authorization": f"Bearer {made['key']}"}
    assert server.client.get("/mcp", headers=bearer).status_code != 401
    keys(server.data_dir, "revoke", made["id"])
    eventually(lambda: server.client.get("/mcp", headers=bearer).status_code == 401)
    assert server.client.get("/mcp", headers=bearer).json()["error"] == "revoked"


def test_a_narrow_key_sees_and_does_only_what_it_may(server: Http) -> None:
    key = keys(server.data_dir, "create", "--name", "reader", "--scopes", "read-only", "--families", "vault")["key"]
    reader = replace(server, key=key)

    assert [tool["name"] for tool in reader.modern("tools/list")["result"]["tools"]] == ["search_memories"]
    arguments = {"scope": "vault", "key": "k", "content": "c"}
    answer = reader.modern("tools/call", {"name": "commit_memory", "arguments": arguments})
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"] == {"error": "scope_required", "scope": "write_memory"}


def test_both_eras_share_one_memory(server: Http) -> None:
    session = server.handshake()
    arguments = {"scope": "vault", "key": "from the old", "content": "handshake words"}
    server.legacy(session, "tools/call", {"name": "commit_memory", "arguments": arguments})

    assert server.modern_call("search_memories", query="handshake")["results"][0]["key"] == "from the old"


def test_a_session_cannot_be_used_with_another_key(server: Http) -> None:
    session = server.handshake()
    key = keys(server.data_dir, "create", "--name", "other")["key"]

    answer = server.client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        headers=server.headers(**{"mcp-session-id": session, "Authorization": f"Bearer {key}"}),
    )
    assert answer.status_code == 404


def test_legacy_sse_serves_a_whole_conversation(server: Http) -> None:
    with server.client.stream("GET", "/mcp/sse", headers=server.headers()) as stream:
        events = events_of(stream)
        _, address = next(events)
        assert address.startswith("/mcp/messages?session_id=")

        def ask(id_: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
            assert server.client.post(address, json=message, headers=server.headers()).status_code == 202
            answers = (json.loads(data) for _, data in events)
            return next(answer for answer in answers if answer.get("id") == id_)

        assert ask(1, "initialize", HELLO)["result"]["protocolVersion"] == "2025-11-25"
        arguments = {"scope": "vault", "key": "sse", "content": "c"}
        answer = ask(2, "tools/call", {"name": "commit_memory", "arguments": arguments})
        assert answer["result"]["structuredContent"]["committed"] is True


def events_of(stream: httpx.Response) -> Iterator[tuple[str, str]]:
    """(event, data) pairs of a text/event-stream."""
    event = ""
    for line in stream.iter_lines():
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield event, line.removeprefix("data: ")


def test_listeners_of_every_era_are_notified_of_a_change(server: Http) -> None:
    session = server.handshake()
    uri = "memory://vault/watched"
    server.legacy(session, "resources/subscribe", {"uri": uri})
    listen = {
        "jsonrpc": "2.0",
        "id": "L",
        "method": "subscriptions/listen",
        "params": {
            "notifications": {"resourcesListChanged": True, "resourceSubscriptions": [uri]},
            "_meta": modern_meta(),
        },
    }
    modern_headers = server.headers(**server.modern_headers("subscriptions/listen", {}))
    with (
        server.client.stream("GET", "/mcp", headers=server.headers(**{"mcp-session-id": session})) as legacy,
        server.client.stream("POST", "/mcp", json=listen, headers=modern_headers) as modern,
    ):
        modern_events = events_of(modern)
        next(modern_events)  # the acknowledgement
        server.modern_call("commit_memory", scope="vault", key="watched", content="one")

        for events in (events_of(legacy), modern_events):
            heard = [json.loads(next(events)[1]) for _ in range(2)]
            assert {message["method"] for message in heard} == {
                "notifications/resources/updated",
                "notifications/resources/list_changed",
            }
            assert any(message["params"].get("uri") == uri for message in heard if "params" in message)


def test_beyond_the_limit_of_streams_the_oldest_ends(tmp_path: Path) -> None:
    with http_server(tmp_path, "--embedder", "none", "--max-user-streams", "2") as server, ExitStack() as opened:
        headers = server.headers(**server.modern_headers("subscriptions/listen", {}))
        params = {"notifications": {"resourcesListChanged": True}, "_meta": modern_meta()}
        message = {"jsonrpc": "2.0", "id": "L", "method": "subscriptions/listen", "params": params}
        streams = []
        for _ in range(4):
            stream = opened.enter_context(server.client.stream("POST", "/mcp", json=message, headers=headers))
            streams.append(events_of(stream))
            assert "acknowledged" in next(streams[-1])[1]
        for ended in streams[:2]:
            assert "result" in json.loads(next(ended)[1])
        server.modern_call("commit_memory", scope="vault", key="k", content="one")
        for open_still in streams[2:]:
            assert "list_changed" in next(open_still)[1]


def test_it_stops_with_open_streams_and_ends_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with http_server(tmp_path) as server:
        session = server.handshake()
        arguments = {"scope": "session", "key": "k", "content": "c"}
        server.legacy(session, "tools/call", {"name": "commit_memory", "arguments": arguments})
        listen = {"notifications": {"resourcesListChanged": True}, "_meta": modern_meta()}
        with (
            server.client.stream("GET", "/mcp", headers=server.headers(**{"mcp-session-id": session})),
            server.client.stream("GET", "/mcp/sse", headers=server.headers()),
            server.client.stream(
                "POST",
                "/mcp",
                json={"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen},
                headers=server.headers(**server.modern_headers("subscriptions/listen", {})),
            ) as modern,
        ):
            events = events_of(modern)
            next(events)
            assert server.stop() == 0
            assert FORCED not in capfd.readouterr().err
            assert "result" in json.loads(next(events)[1])  # a listen stream ends with its final frame
    rows = apsw.Connection(str(tmp_path / "memory.db")).execute("SELECT * FROM session_memories").fetchall()
    assert rows == []
    assert not list((tmp_path / "servers").iterdir())


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--host", "0.0.0.0"], "no key has been created"),
        (["--host", "0.0.0.0", "--auth", "none"], "loopback only"),
    ],
)
def test_other_machines_get_no_access_by_accident(tmp_path: Path, flags: list[str], complaint: str) -> None:
    done = run("--transport", "http", "--port", "0", "--data-dir", tmp_path, *flags)

    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_explained(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("--transport", "http", "--port", port, "--data-dir", tmp_path)

    assert done.returncode == 1
    assert "Choose another --port" in done.stderr
    assert "mmcp_" not in done.stdout


def test_without_auth_loopback_needs_no_key(tmp_path: Path) -> None:
    with http_server(tmp_path, "--auth", "none") as server:
        assert server.key is None
        assert server.modern_call("commit_memory", scope="vault", key="k", content="c")["committed"]


def test_large_and_malformed_bodies_are_refused_without_details(server: Http) -> None:
    headers = server.headers(**{"Content-Type": "application/json"})
    for body in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"\\ud800"}'):
        answer = server.client.post("/mcp", content=body, headers=headers)
        assert 400 <= answer.status_code < 500
        assert "Traceback" not in answer.text
        assert "pydantic" not in answer.text
    for body in (b"[]", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"secret"}'):
        answer = server.client.post("/mcp", content=body, headers=headers)
        assert answer.json()["error"]["message"] == "This is not a JSON-RPC 2.0 message."
        assert "secret" not in answer.text
    refused = server.client.post("/mcp", content=b"x" * 5_000_000, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (413, "too_large")
    missing = server.client.get("/nothing")
    assert (missing.status_code, missing.json()["error"]) == (404, "not_found")


def test_the_front_page_says_how_to_connect(server: Http) -> None:
    page = server.client.get("/")

    assert page.status_code == 200
    assert "claude mcp add" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert server.client.get("/healthz").json()["status"] == "ok"


def test_no_key_reaches_the_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        with http_server(tmp_path / "data", "--log-level", "debug", stderr=log) as server:
            assert server.key is not None
            assert server.client.post("/mcp", headers=server.headers()).status_code == 400
            assert server.stop() == 0
        log.seek(0)
        lines = log.read().splitlines()
    assert lines
    assert not [line for line in lines if server.key in line]
    assert all(json.loads(line)["time"] for line in lines)
