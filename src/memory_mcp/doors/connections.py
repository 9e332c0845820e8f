"""TCP connections before a request has been read: how many an address may have, how slow they may be, and what is not
HTTP that two parsers would read alike."""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from typing import Protocol as Interface

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTION = "memory_mcp.tcp"  # where the state of a request's scope has its connection
MIN_BODY_BYTES_PER_S = 8192  # a body that comes slower has `body_seconds` in all
CLOSE_TIMEOUT_S = 5.0  # for a peer that does not take the last bytes
BUSY = b"Too many connections from this address. Try again later."
SLOW = b"The request did not arrive in time."


class Evictable(Interface):
    def evict(self) -> None:
        """Close the connection, which does not count from now on."""


class Connections:
    """The open connections of one server. Those that have shown a key or a sign-in do not count for their address.

    An address that has as many as it may gets another one by losing the one that has been without a whole request for
    longest: clients that send nothing cannot keep the others of their address out.
    """

    def __init__(self, *, max_per_address: int, max_total: int, proxies: Iterable[str] = ()) -> None:
        """`proxies` speak for many clients: their addresses have no limit."""
        self._max_per_address = max_per_address
        self._max_total = max_total
        self._any_is_proxy = "*" in proxies
        self._proxies = [network for name in proxies if (network := _network(name))]
        self._unknown: Counter[str] = Counter()  # connections without a key so far, by address
        self._addresses: dict[Evictable, str | None] = {}  # None once it does not count any more
        self._idle: dict[str, dict[Evictable, None]] = {}  # by address, those without a whole request, oldest first

    def open(self, connection: Evictable, address: str | None) -> bool:
        """False if it is one too many."""
        counts = address is not None and not self._is_proxy(address)
        if len(self._addresses) >= self._max_total:
            return False
        if address is not None and counts:
            if self._unknown[address] >= self._max_per_address and not self._evict_oldest_idle(address):
                return False
            self._unknown[address] += 1
        self._addresses[connection] = address if counts else None
        return True

    def set_idle(self, connection: Evictable, *, is_idle: bool) -> None:
        """Whether the connection waits for a request, or for the rest of its header."""
        if address := self._addresses.get(connection):
            idle = self._idle.setdefault(address, {})
            if is_idle:
                idle.setdefault(connection)
            else:
                idle.pop(connection, None)

    def confirm(self, connection: Evictable) -> None:
        """The connection has shown a valid key or sign-in."""
        if address := self._addresses.get(connection):
            self._addresses[connection] = None
            self._forget(connection, address)

    def close(self, connection: Evictable) -> None:
        if address := self._addresses.pop(connection, None):
            self._forget(connection, address)

    def _evict_oldest_idle(self, address: str) -> bool:
        """False if all connections of the address have sent a request."""
        oldest = next(iter(self._idle.get(address, ())), None)
        if oldest is None:
            return False
        self.close(oldest)
        oldest.evict()
        return True

    def _forget(self, connection: Evictable, address: str) -> None:
        idle = self._idle.get(address, {})
        idle.pop(connection, None)
        if not idle:
            self._idle.pop(address, None)
        self._unknown[address] -= 1
        if not self._unknown[address]:
            del self._unknown[address]

    def _is_proxy(self, address: str) -> bool:
        if self._any_is_proxy:
            return True
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)


def _network(name: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        return None


class Config(uvicorn.Config):
    """uvicorn's, with what its connections are held to."""

    def __init__(self, app: Any, *, connections: Connections, header_s: float, body_s: float, **more: Any) -> None:
        super().__init__(app, http=Protocol, **more)
        self.connections = connections
        self.header_s = header_s
        self.body_s = body_s


class StrictConnection(h11.Connection):
    """Refuses a request whose length is given in two ways: a proxy may believe the other one."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length together with Transfer-Encoding")
        return event


class Protocol(H11Protocol):
    """uvicorn's protocol has a timeout between requests only. This one also has one for a request's header, counted
    from the connection or the first byte, and one for its body. It is used whether or not httptools is installed."""

    config: Config

    def __init__(self, config: Config, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, {**app_state, CONNECTION: self}, _loop)
        self.conn = StrictConnection(h11.SERVER, *_max_header_bytes(config))
        self._waits_for: tuple[str, RequestResponseCycle | None] | None = None  # a header or a body, since when
        self._since = 0.0
        self._received_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        super().connection_made(transport)
        if self.config.connections.open(self, self.client[0] if self.client else None):
            self._wait_for("header", None)
        else:
            self._refuse(b"503 Service Unavailable", BUSY)

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        super().data_received(data)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._wait_for("header", cycle)
        elif cycle.more_body:
            self._wait_for("body", cycle)
        else:
            self._stop_waiting()
            self.config.connections.set_idle(self, is_idle=False)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self.config.connections.set_idle(self, is_idle=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.config.connections.close(self)
        super().connection_lost(exc)

    def evict(self) -> None:
        has_begun_request = self._waits_for is not None and self._received_bytes > 0
        self._refuse(b"503 Service Unavailable", BUSY if has_begun_request else None)

    def confirm(self) -> None:
        self.config.connections.confirm(self)

    def _wait_for(self, part: str, cycle: RequestResponseCycle | None) -> None:
        if self._waits_for == (part, cycle):
            return
        self._stop_waiting()
        self._waits_for, self._since, self._received_bytes = (part, cycle), self.loop.time(), 0
        timeout_s = self.config.header_s if part == "header" else self.config.body_s
        self.config.connections.set_idle(self, is_idle=part == "header")
        self._timer = self.loop.call_later(timeout_s, self._time_out)

    def _stop_waiting(self) -> None:
        self._waits_for = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        if self._waits_for is None or self.transport.is_closing():
            return
        part, cycle = self._waits_for
        if part == "body":
            allowed_s = self.config.body_s + self._received_bytes / MIN_BODY_BYTES_PER_S
            left_s = self._since + allowed_s - self.loop.time()
            if left_s > 0 or self.flow.read_paused:  # where we do not read, the client is not slow
                self._timer = self.loop.call_later(max(left_s, 1.0), self._time_out)
                return
        if cycle is not None and part == "body":
            cycle.disconnected = True
            cycle.message_event.set()
        has_begun_to_answer = part == "body" and cycle is not None and cycle.response_started
        is_silent = part == "header" and not self._received_bytes
        self._refuse(b"408 Request Timeout", None if has_begun_to_answer or is_silent else SLOW)

    def _refuse(self, status: bytes, message: bytes | None) -> None:
        """Say why, if there is anything to say, and close: within a few seconds even if the peer does not read."""
        self._stop_waiting()
        if message is not None:
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 5\r\ncontent-length: "
            self.transport.write(b"HTTP/1.1 %s\r\n%s%d\r\n\r\n%s" % (status, head, len(message), message))
        self.transport.close()
        self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)


def _max_header_bytes(config: uvicorn.Config) -> tuple[int, ...]:
    size = config.h11_max_incomplete_event_size
    return () if size is None else (size,)


def confirm(scope: Mapping[str, Any]) -> None:
    """The connection of this request has shown who it belongs to."""
    connection = scope.get("state", {}).get(CONNECTION)
    if isinstance(connection, Protocol):
        connection.confirm()
