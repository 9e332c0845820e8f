"""TCP connections before a request has been read: their number per address, their timeouts, and the refusal of
ambiguous HTTP, which two parsers would read differently."""

import asyncio
import ipaddress
import typing
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from memory_mcp.server.buffered_transport import BufferedTransport
from memory_mcp.server.request_connection import CONNECTION
from memory_mcp.system.client_networks import network_of

MIN_BODY_BYTES_PER_S = 8192  # a body that comes slower has `body_seconds` in all
STALLED_S = 5.0  # a connection whose answer is unread for so long may be closed for another one
CLOSE_TIMEOUT_S = 5.0  # for a client that does not read the last bytes
BUSY = b"Too many connections from this address. Try again later."
SLOW = b"The request did not arrive in time."


class Evictable(typing.Protocol):
    def evict(self) -> None:
        """Close the connection."""


class Connections:
    """The open connections of one server, counted by owner: an address until they have shown a key or a sign-in, then
    that user.

    If an owner opens one too many, the one that has been idle longest is closed: clients that send nothing, half a
    request, or do not read their answer cannot lock out the others of their address. If all owners together have too
    many, the owner with the most loses one.
    """

    def __init__(
        self,
        *,
        max_per_address: int,
        max_total: int,
        max_per_user: int | None = None,
        max_user_bytes: int | None = None,
        max_refused: int = 64,
        proxies: Iterable[str] = (),
    ) -> None:
        """`proxies` forward the requests of many clients: their addresses have no limit. `max_user_bytes`: of answers
        that a user has not read. `max_refused`: how many refused connections wait for their clients to read why."""
        self._max_refused = max_refused
        self._max_user_bytes = max_user_bytes
        self._unread: Counter[str] = Counter()  # bytes, by user
        self._unread_of: dict[Evictable, tuple[str, int]] = {}
        self._max_per_address = max_per_address
        self._max_per_user = max_total if max_per_user is None else max_per_user
        self._max_total = max_total
        self._any_is_proxy = "*" in proxies
        self._proxies = [network for name in proxies if (network := _network(name))]
        self._counts: Counter[ConnectionOwner] = Counter()
        self._owners: dict[Evictable, ConnectionOwner | None] = {}  # None: it has no limit
        self._idle: dict[ConnectionOwner, dict[Evictable, None]] = {}  # those that may be closed, oldest first
        self._lingering: set[Evictable] = set()

    def open(self, connection: Evictable, address: str | None) -> bool:
        """False if it is one too many."""
        if len(self._owners) >= self._max_total and not self._evict_from_biggest_owner():
            return False
        if address is None or self._is_proxy(address):
            self._owners[connection] = None
            return True
        return self._add(connection, ConnectionOwner(address=network_of(address)), self._max_per_address)

    def set_idle(self, connection: Evictable, *, is_idle: bool) -> None:
        """Whether the connection waits for its client: for a request, the rest of one, or for an answer to be read."""
        if owner := self._owners.get(connection):
            idle = self._idle.setdefault(owner, {})
            if is_idle:
                idle.setdefault(connection)
            else:
                idle.pop(connection, None)

    def confirm(self, connection: Evictable, user: str) -> bool:
        """Count the connection for a user, after a valid key or sign-in. False if the user has one too many."""
        owner = self._owners.get(connection)
        if owner is None or owner.user is not None:
            return True
        is_idle = connection in self._idle.get(owner, {})
        if not self._add(connection, ConnectionOwner(user=user), self._max_per_user):
            return False
        self._subtract(connection, owner)
        self.set_idle(connection, is_idle=is_idle)
        return True

    def set_unread(self, connection: Evictable, count: int) -> None:
        """How many bytes of its answer a connection has to send."""
        user, former = self._unread_of.pop(connection, ("", 0))
        self.add_unread(user, -former)
        owner = self._owners.get(connection)
        if count and owner and owner.user is not None:
            self._unread_of[connection] = owner.user, count
            self.add_unread(owner.user, count)

    def add_unread(self, user: str, count: int) -> None:
        self._unread[user] += count
        if not self._unread[user]:
            del self._unread[user]

    def has_too_much_unread(self, user: str) -> bool:
        return self._max_user_bytes is not None and self._unread.get(user, 0) > self._max_user_bytes

    def linger(self, connection: Evictable) -> bool:
        """Whether a refused connection may stay open until its client has read why. False if too many do."""
        if len(self._lingering) >= self._max_refused:
            return False
        self._lingering.add(connection)
        return True

    def close(self, connection: Evictable) -> None:
        self._lingering.discard(connection)
        self.set_unread(connection, 0)
        if owner := self._owners.pop(connection, None):
            self._subtract(connection, owner)

    def _add(self, connection: Evictable, owner: "ConnectionOwner", max_count: int) -> bool:
        if self._counts[owner] >= max_count and not self._evict_oldest_idle(owner):
            return False
        self._counts[owner] += 1
        self._owners[connection] = owner
        return True

    def _evict_from_biggest_owner(self) -> bool:
        return bool(self._counts) and self._evict_oldest_idle(max(self._counts, key=self._counts.__getitem__))

    def _evict_oldest_idle(self, owner: "ConnectionOwner") -> bool:
        """False if all connections of the owner have a request under way."""
        oldest = next(iter(self._idle.get(owner, ())), None)
        if oldest is None:
            return False
        self.close(oldest)
        oldest.evict()
        return True

    def _subtract(self, connection: Evictable, owner: "ConnectionOwner") -> None:
        idle = self._idle.get(owner, {})
        idle.pop(connection, None)
        if not idle:
            self._idle.pop(owner, None)
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]

    def _is_proxy(self, address: str) -> bool:
        if self._any_is_proxy:
            return True
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)


class ConnectionOwner(NamedTuple):
    """The address or the user that a connection counts for."""

    address: str | None = None
    user: str | None = None


def _network(name: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        return None


class LimitedConfig(uvicorn.Config):
    """uvicorn's configuration, with the limits of connections."""

    def __init__(
        self, app: Any, *, connections: Connections, header_s: float, body_s: float, send_s: float, **more: Any
    ) -> None:
        super().__init__(app, http=LimitedProtocol, ws="none", **more)  # a WebSocket would have none of these limits
        self.connections = connections
        self.header_s = header_s
        self.body_s = body_s
        self.send_s = send_s


class StrictConnection(h11.Connection):
    """Refuses a request whose length is given in two ways: a proxy may use the other one."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length together with Transfer-Encoding")
        return event


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol has a timeout between requests only. This one also has one for a request's header, counted
    from the connection or the first byte, one for its body, and one for a client that does not read its answer. It is
    used whether or not httptools is installed."""

    config: LimitedConfig

    def __init__(self, config: LimitedConfig, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, {**app_state, CONNECTION: self}, _loop)
        self.conn = StrictConnection(h11.SERVER, *_max_header_bytes(config))
        self._waits_for: tuple[str, RequestResponseCycle | None] | None = None  # a header or a body, since when
        self._since = 0.0
        self._received_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None  # while the client does not read
        self.is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        self._buffered = BufferedTransport(transport, self.loop)
        super().connection_made(self._buffered)  # type: ignore[arg-type]  # it has all that a transport has
        if self.config.connections.open(self, self.client[0] if self.client else None):
            self._wait_for("header", None)
        else:
            self._refuse(b"503 Service Unavailable", BUSY)

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        self._received_bytes += len(data)
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for("header", self.cycle)
        else:
            self._wait_for_rest(self.cycle)

    def on_response_complete(self) -> None:
        self._buffered.flush()
        super().on_response_complete()
        if self.cycle is None or self.transport.is_closing():
            return
        if self.cycle.response_complete:  # uvicorn's timeout between requests runs
            self.config.connections.set_idle(self, is_idle=True)
        else:  # the next request was there already, or its first part
            self._wait_for_rest(self.cycle)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.config.connections.set_unread(self, self.transport.get_write_buffer_size())
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(min(STALLED_S, self.config.send_s), self._set_stalled)

    def resume_writing(self) -> None:
        self.config.connections.set_unread(self, 0)
        if self._send_timer is not None:
            self._stop_send_timer()
            is_waiting = self._waits_for is not None
            self.config.connections.set_idle(self, is_idle=is_waiting)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_send_timer()
        self.config.connections.close(self)
        super().connection_lost(exc)

    def evict(self) -> None:
        has_begun_to_answer = (
            self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        )
        part = self._waits_for[0] if self._waits_for else None
        is_first = self.cycle is None  # its client may just have sent it
        has_begun_request = part == "body" or (part == "header" and (is_first or self._received_bytes > 0))
        self._refuse(b"503 Service Unavailable", BUSY if has_begun_request and not has_begun_to_answer else None)

    def confirm(self, user: str) -> bool:
        return self.config.connections.confirm(self, user)

    def _wait_for_rest(self, cycle: RequestResponseCycle) -> None:
        if cycle.more_body:
            self._wait_for("body", cycle)
        else:
            self._stop_waiting()
            self.config.connections.set_idle(self, is_idle=False)

    def _wait_for(self, part: str, cycle: RequestResponseCycle | None) -> None:
        if self._waits_for == (part, cycle):
            return
        self._stop_waiting()
        self._waits_for, self._since, self._received_bytes = (part, cycle), self.loop.time(), 0
        timeout_s = self.config.header_s if part == "header" else self.config.body_s
        self.config.connections.set_idle(self, is_idle=True)
        self._timer = self.loop.call_later(timeout_s, self._time_out)

    def _stop_waiting(self) -> None:
        self._waits_for = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_stalled(self) -> None:
        self.config.connections.set_idle(self, is_idle=True)
        left_s = self.config.send_s - STALLED_S
        self._send_timer = self.loop.call_later(max(left_s, 0.0), self.transport.abort)

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _time_out(self) -> None:
        if self._waits_for is None or self.transport.is_closing():
            return
        part, cycle = self._waits_for
        if part == "body":
            allowed_s = self.config.body_s + self._received_bytes / MIN_BODY_BYTES_PER_S
            left_s = self._since + allowed_s - self.loop.time()
            if left_s > 0 or self.flow.read_paused:  # if we do not read, the client is not slow
                self._timer = self.loop.call_later(max(left_s, 1.0), self._time_out)
                return
        if cycle is not None and part == "body":
            cycle.disconnected = True
            cycle.message_event.set()
        has_begun_to_answer = part == "body" and cycle is not None and cycle.response_started
        is_silent = part == "header" and not self._received_bytes
        self._refuse(b"408 Request Timeout", None if has_begun_to_answer or is_silent else SLOW)

    def _refuse(self, status: bytes, message: bytes | None) -> None:
        """Send the message, if there is one, and close within a few seconds, even if the client does not read."""
        self._stop_waiting()
        self.is_refused = True
        if message is not None:
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 5\r\ncontent-length: "
            self.transport.write(b"HTTP/1.1 %s\r\n%s%d\r\n\r\n%s" % (status, head, len(message), message))
        if message is not None and self.transport.can_write_eof() and self.config.connections.linger(self):
            self._end_output()
        else:
            self.transport.close()
        self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    def _end_output(self) -> None:
        """Send nothing more, and drop what comes until the client closes the connection: if it were closed while bytes
        of the client are unread, the system would reset it, and the client would not get the message."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.transport.resume_reading()


def _max_header_bytes(config: uvicorn.Config) -> tuple[int, ...]:
    size = config.h11_max_incomplete_event_size
    return () if size is None else (size,)
