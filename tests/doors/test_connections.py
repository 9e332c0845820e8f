"""Connections that send little, slowly or nothing, without a key, keep nobody else out."""

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from memory_mcp.doors.connections import Connections
from memory_mcp.logs import MAX_REPEATS, RepeatFilter
from tests.wire import Http, http_server

ATTACKER, CROWD, OTHER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
MAX_CONNECTIONS = 20
MAX_FILES = 400
SIGNING_IN = (  # a whole header, and a body that is waited for
    b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Sec-Fetch-Site: same-origin\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    folder = tmp_path_factory.mktemp("connections")
    flags = ["--embedder", "none", "--header-seconds", "1", "--body-seconds", "1"]
    limits = ["--address-connections", str(MAX_CONNECTIONS)]
    with (folder / "log").open("w") as log:

        def limit_files() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, MAX_FILES))

        with http_server(folder / "data", *flags, *limits, stderr=log, preexec_fn=limit_files) as running:
            yield running


def connect(server: Http, source: str = ATTACKER) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0))


def rest_of(connection: socket.socket) -> bytes:
    """Until the server closes."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def head(server: Http, *, with_key: bool) -> bytes:
    key = f"Authorization: Bearer {server.key}\r\n" if with_key else ""
    accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    return f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}{accept}Content-Length: 100\r\n\r\n".encode()


def test_a_connection_that_sends_nothing_or_half_a_header_is_closed(server: Http) -> None:
    with connect(server) as silent, connect(server) as half:
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0")
        assert rest_of(silent) == b""
        assert rest_of(half).startswith(b"HTTP/1.1 408 ")


def test_a_header_that_comes_byte_by_byte_is_not_waited_for(server: Http) -> None:
    with connect(server) as slow:
        assert trickle(slow, b"GET /healthz HTTP/1.1\r\nX: ").startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("with_key", [False, True])
def test_a_body_that_comes_byte_by_byte_is_not_waited_for(server: Http, with_key: bool) -> None:
    with connect(server) as slow:
        answer = trickle(slow, head(server, with_key=with_key))
        assert answer.startswith(b"HTTP/1.1 408 " if with_key else b"HTTP/1.1 401 ")


def trickle(connection: socket.socket, first: bytes) -> bytes:
    """Send `first` and then a byte whenever nothing has come back for a while, until the server closes."""
    connection.sendall(first)
    connection.settimeout(0.1)
    received = b""
    for _ in range(100):
        try:
            chunk = connection.recv(65536)
            if not chunk:
                return received
            received += chunk
        except TimeoutError:
            try:
                connection.sendall(b"x")
            except (BrokenPipeError, ConnectionResetError):
                return received
        except ConnectionResetError:
            return received
    pytest.fail("the server still waits")


def test_a_whole_body_is_taken_also_in_parts(server: Http) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'.ljust(100)
    with connect(server) as connection:
        connection.sendall(head(server, with_key=True) + body[:50])
        connection.sendall(body[50:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_one_address_has_a_limit_and_the_others_are_let_in(server: Http) -> None:
    with ExitStack() as held:
        for _ in range(MAX_CONNECTIONS):
            busy = held.enter_context(connect(server))
            busy.sendall(SIGNING_IN)
            assert busy.recv(100).startswith(b"HTTP/1.1 100 ")
        with connect(server) as one_more:
            refused = rest_of(one_more)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: " in refused
        assert server.client.get("/healthz").status_code == 200


def test_connections_without_a_request_make_way_for_others_of_their_address(server: Http) -> None:
    with ExitStack() as held:
        silent = held.enter_context(connect(server))
        for _ in range(2 * MAX_CONNECTIONS):
            held.enter_context(connect(server)).sendall(b"GET /healthz HTTP/1.1\r\n")
        with connect(server) as one_more:
            one_more.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert rest_of(one_more).startswith(b"HTTP/1.1 200 ")
        assert rest_of(silent) == b""


def test_connections_that_have_shown_a_key_do_not_count(server: Http) -> None:
    call = head(server, with_key=True).replace(b"POST /mcp ", b"GET /mcp ").replace(b"Content-Length: 100\r\n", b"")
    with ExitStack() as held:
        for _ in range(2 * MAX_CONNECTIONS):
            connection = held.enter_context(connect(server, CROWD))
            connection.sendall(call)
            assert connection.recv(12) == b"HTTP/1.1 400"  # no session, but a key


def test_a_flood_from_many_addresses_neither_ends_the_files_nor_fills_the_log(server: Http) -> None:
    assert f"process_max_fds {MAX_FILES}.0" in server.client.get("/metrics").text  # as many as the system allows
    log = server.data_dir.parent / "log"
    before = log.stat().st_size
    with ExitStack() as held:
        for number in range(1200):
            source = f"127.0.1.{number // MAX_CONNECTIONS + 1}"
            held.enter_context(connect(server, source)).sendall(b"GET / HTTP/1.1\r\n")
        # This connection was there before; the memory behind it can still open files.
        assert server.modern_call("commit_memory", scope="vault", key="still", content="c")["committed"]
    assert log.stat().st_size - before < 20_000


class Open:
    """A connection, as far as it is counted."""

    def evict(self) -> None:
        pytest.fail("it is not idle")


def test_proxies_have_no_limit() -> None:
    connections = Connections(max_per_address=1, max_total=100, proxies=["10.0.0.0/8", "::1"])
    assert all(connections.open(Open(), address) for address in ("10.1.2.3", "10.1.2.3", "::1", "::1", None, None))
    assert [connections.open(Open(), "192.0.2.1") for _ in range(2)] == [True, False]


def test_a_connection_makes_way_when_it_closes_or_shows_a_key() -> None:
    connections = Connections(max_per_address=1, max_total=3)
    first, second, third = Open(), Open(), Open()
    assert connections.open(first, OTHER)
    connections.confirm(first)
    assert connections.open(second, OTHER)
    assert not connections.open(third, OTHER)
    connections.close(second)
    assert connections.open(third, OTHER)
    assert connections.open(Open(), CROWD)
    assert not connections.open(Open(), ATTACKER)  # more than the process has files for


def test_a_line_that_repeats_is_left_out_and_counted() -> None:
    now = 0.0
    filter_ = RepeatFilter(lambda: now)

    def passes(message: str) -> logging.LogRecord | None:
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, message, (), None)
        return record if filter_.filter(record) else None

    assert sum(passes("too many open files") is not None for _ in range(1000)) == MAX_REPEATS
    assert passes("something else") is not None
    now = 61.0
    again = passes("too many open files")
    assert again is not None
    assert vars(again)["left_out"] == 1000 - MAX_REPEATS
