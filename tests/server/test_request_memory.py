"""What one user sends and does not finish, or asks for and does not read, takes up a limited part of the memory."""

import json
import re
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from memory_mcp.server.connections import Connections
from tests.events import TIMEOUT_S, eventually
from tests.processes import run
from tests.wire import HELLO, Http, http_server, modern_meta

MAX_BYTES = 32 * 1024 * 1024
BODY_BYTES = 4 * 1024 * 1024
CALLS = 2 * MAX_BYTES // (2 * 1024 * 1024)  # each answer has the text twice


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    folder = tmp_path_factory.mktemp("memory")
    with http_server(folder, "--embedder", "none", "--user-request-bytes", str(MAX_BYTES)) as running:
        yield running


@pytest.fixture(scope="module")
def neighbor(server: Http) -> Http:
    where = ("--data-dir", server.data_dir, "--json")
    run("users", "add", "neighbor", *where, check=True)
    made = run("keys", "create", "--name", "k", "--user", "neighbor", *where, check=True)
    return replace(server, key=json.loads(made.stdout)["key"])


@contextmanager
def connected(server: Http) -> Iterator[socket.socket]:
    """A connection that takes few bytes until they are read."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(TIMEOUT_S)
        connection.connect((host, int(port)))
        yield connection


def head(server: Http, method: str, path: str, length: int) -> bytes:
    headers = server.headers(**{"Host": "127.0.0.1", "Content-Type": "application/json"})
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def long_note(server: Http) -> str:
    return str(server.modern_call("memory_create", content="w " * 500_000)["id"])


def is_refused(server: Http) -> bool:
    answer = server.client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}},
        headers=server.headers(**server.modern_headers("tools/list", {})),
    )
    return answer.status_code == 503 and answer.json()["error"] == "unavailable" and "Retry-After" in answer.headers


def test_unfinished_bodies(server: Http, neighbor: Http) -> None:
    """One body more than fit is refused, whichever comes last; those of another user are taken."""
    with ExitStack() as stack:
        bodies = [stack.enter_context(connected(server)) for _ in range(MAX_BYTES // BODY_BYTES + 1)]
        for connection in bodies:
            connection.sendall(head(server, "POST", "/mcp", BODY_BYTES))
            connection.sendall(b'{"jsonrpc":"' + b"x" * (BODY_BYTES - 100))
        answered, _, _ = select.select(bodies, [], [], TIMEOUT_S)
        assert answered[0].recv(100).startswith(b"HTTP/1.1 503")
        assert neighbor.modern_call("memory_create", content="x" * 1_000_000)["id"]
    long = {"name": "memory_create", "arguments": {"content": "x" * 1_000_000}}
    eventually(lambda: "result" in server.modern("tools/call", long))  # once it has noticed who has disconnected


def test_unread_answers_count_for_their_user() -> None:
    """Not over the wire: how much of an answer the kernel takes differs from machine to machine."""
    connections = Connections(max_per_address=9, max_total=9, max_user_bytes=100)
    first, second = Silent(), Silent()
    for connection in (first, second):
        connections.open(connection, "127.0.0.1")
        connections.confirm(connection, "eve")
    connections.set_unread(first, 60)
    assert not connections.has_too_much_unread("eve")
    connections.set_unread(second, 60)
    assert connections.has_too_much_unread("eve")
    assert not connections.has_too_much_unread("ann")
    connections.close(second)
    assert not connections.has_too_much_unread("eve")


class Silent:
    def evict(self) -> None: ...


def test_unread_answers_of_a_legacy_stream(server: Http, neighbor: Http) -> None:
    note = long_note(server)
    with connected(server) as stream:
        stream.sendall(head(server, "GET", "/mcp/sse", 0))
        received = b""
        while (found := re.search(rb"data: (\S+)\r\n", received)) is None:
            received += stream.recv(4096)
        messages: list[dict[str, Any]] = [
            {"id": 0, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
        ]
        ask = {"method": "tools/call", "params": {"name": "memory_get", "arguments": {"id": note}}}
        for message in [*messages, *({"id": id_, **ask} for id_ in range(1, CALLS))]:
            body = {"jsonrpc": "2.0", **message}
            server.client.post(found[1].decode(), json=body, headers=server.headers())
        eventually(lambda: is_refused(server))
        assert neighbor.modern_call("memory_stats")
    eventually(lambda: not is_refused(server))
