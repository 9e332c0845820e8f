"""Connections that send little, slowly or nothing, without a key, do not lock out others."""

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from memory_mcp.logs import MAX_REPEATS, RepeatFilter
from memory_mcp.server.connections import Connections
from tests.events import TIMEOUT_S
from tests.wire import Http, http_server

ATTACKER, CROWD, OTHER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
MAX_CONNECTIONS = 20
MAX_FILES = 400
SIGNING_IN = (  # a whole header, and a body that is waited for
    b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Sec-Fetch-Site: same-origin\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n"
)

ASSET = b"GET /assets/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    folder = tmp_path_factory.mktemp("connections")
    flags = ["--embedder", "none", "--header-seconds", "1", "--body-seconds", "1", "--send-seconds", "1"]
    limits = ["--address-connections", str(MAX_CONNECTIONS)]
    with (folder / "log").open("w") as log:

        def limit_files() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, MAX_FILES))

        with http_server(folder / "data", *flags, *limits, stderr=log, preexec_fn=limit_files) as running:
            yield running


def connect(server: Http, source: str = ATTACKER) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S, source_address=(source, 0))


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


def test_silent_and_half_open_connections_are_closed(server: Http) -> None:
    with connect(server) as silent, connect(server) as half:
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0")
        assert rest_of(silent) == b""
        assert rest_of(half).startswith(b"HTTP/1.1 408 ")


def test_slow_headers_time_out(server: Http) -> None:
    with connect(server) as slow:
        assert trickle(slow, b"GET /healthz HTTP/1.1\r\nX: ").startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("with_key", [False, True])
def test_slow_bodies_time_out(server: Http, with_key: bool) -> None:
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


def test_a_body_in_parts_is_accepted(server: Http) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'.ljust(100)
    with connect(server) as connection:
        connection.sendall(head(server, with_key=True) + body[:50])
        connection.sendall(body[50:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_slow_pipelined_body_times_out(server: Http) -> None:
    with connect(server) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + SIGNING_IN)
        received = rest_of(slow)
        assert received.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in received


def test_a_client_that_reads_no_answers_is_disconnected(server: Http) -> None:
    with connect_unread(server) as unread:
        unread.settimeout(20)
        with pytest.raises(ConnectionError):
            for _ in range(1_000_000):  # far more requests than anybody answers who is not read
                unread.sendall(ASSET)


def test_half_sent_bodies_are_evicted_for_others_of_their_address(server: Http) -> None:
    with ExitStack() as held:
        slow = [held.enter_context(connect(server)) for _ in range(MAX_CONNECTIONS)]
        for connection in slow:
            connection.sendall(SIGNING_IN)
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        with connect(server) as one_more:
            one_more.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert rest_of(one_more).startswith(b"HTTP/1.1 200 ")
        refused = rest_of(slow[0])
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: " in refused


def connect_unread(server: Http) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.bind((ATTACKER, 0))
    connection.connect((host, int(port)))
    return connection


def test_only_signed_in_users_send_long_bodies(server: Http) -> None:
    """Signed-out visitors cannot make the server hold megabytes for each connection."""
    long = b"x" * 3_000_000
    for path, status in (("/api/sign-out", 401), ("/api/tools/memory_create", 401), ("/api/sign-in", 413)):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000000\r\n\r\n".encode()
        with connect(server) as connection:
            connection.sendall(head + long[:100_000])  # the rest is never sent
            assert connection.recv(12) == b"HTTP/1.1 %d" % status, path


def test_idle_connections_are_evicted_for_others_of_their_address(server: Http) -> None:
    with ExitStack() as held:
        silent = held.enter_context(connect(server))
        for _ in range(2 * MAX_CONNECTIONS):
            held.enter_context(connect(server)).sendall(b"GET /healthz HTTP/1.1\r\n")
        with connect(server) as one_more:
            one_more.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert rest_of(one_more).startswith(b"HTTP/1.1 200 ")
        assert rest_of(silent).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("sent", [b"", SIGNING_IN])
def test_a_client_whose_connection_is_evicted_reads_why(server: Http, sent: bytes) -> None:
    """Also if it goes on sending: it has not read the answer yet."""
    with ExitStack() as crowd:
        first = crowd.enter_context(connect(server, CROWD))
        first.sendall(sent)
        others = [crowd.enter_context(connect(server, CROWD)) for _ in range(MAX_CONNECTIONS)]
        others[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert others[-1].recv(100).startswith(b"HTTP/1.1 200 ")
        for _ in range(2):
            first.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"HTTP/1.1 503 " in rest_of(first)


def test_authenticated_connections_do_not_count_for_the_address(server: Http) -> None:
    call = head(server, with_key=True).replace(b"POST /mcp ", b"GET /mcp ").replace(b"Content-Length: 100\r\n", b"")
    with ExitStack() as held:
        for _ in range(2 * MAX_CONNECTIONS):
            connection = held.enter_context(connect(server, CROWD))
            connection.sendall(call)
            assert connection.recv(12) == b"HTTP/1.1 400"  # no session, but a key


def test_a_flood_from_many_addresses_exhausts_neither_files_nor_log(server: Http) -> None:
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


def test_closing_or_authenticating_frees_a_connection() -> None:
    connections = Connections(max_per_address=1, max_total=3)
    first, second, third = Open(), Open(), Open()
    assert connections.open(first, OTHER)
    assert connections.confirm(first, "ann")
    assert connections.open(second, OTHER)
    assert not connections.open(third, OTHER)
    connections.close(second)
    assert connections.open(third, OTHER)
    assert connections.open(Open(), CROWD)
    assert not connections.open(Open(), ATTACKER)  # more than the process has files for


class Idle:
    def __init__(self) -> None:
        self.is_evicted = False

    def evict(self) -> None:
        self.is_evicted = True


def test_a_user_at_the_limit_loses_idle_connections_first() -> None:
    connections = Connections(max_per_address=10, max_total=100, max_per_user=2)
    idle, busy, newest = Idle(), Open(), Open()
    for connection in (busy, idle, newest):
        assert connections.open(connection, OTHER)
        connections.set_idle(connection, is_idle=connection is idle)
        assert connections.confirm(connection, "ann")
    assert idle.is_evicted
    one_more = Open()
    assert connections.open(one_more, OTHER)
    assert not connections.confirm(one_more, "ann")
    assert connections.confirm(one_more, "bob")
    connections.close(newest)
    last = Open()
    assert connections.open(last, OTHER)
    assert connections.confirm(last, "ann")


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    connections = Connections(max_per_address=2, max_total=100)
    assert [connections.open(Open(), f"2001:db8::{number}") for number in range(3)] == [True, True, False]
    assert connections.open(Open(), "2001:db8:0:1::1")
    mapped = [connections.open(Open(), f"::ffff:192.0.2.{number}") for number in (1, 2, 3)]
    assert mapped == [True, True, True]


def test_at_the_total_limit_the_biggest_owner_loses_one() -> None:
    connections = Connections(max_per_address=10, max_total=4)
    few, many = Idle(), [Idle() for _ in range(3)]
    for connection, address in ((few, OTHER), *((one, ATTACKER) for one in many)):
        assert connections.open(connection, address)
        connections.set_idle(connection, is_idle=True)
    assert connections.open(Open(), CROWD)
    assert [one.is_evicted for one in (few, *many)] == [False, True, False, False]


def test_repeated_log_lines_are_counted_instead() -> None:
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
