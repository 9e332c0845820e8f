"""The clients connected to this server and to the others on the same data directory, and how to disconnect them."""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from memory_mcp.clock import Clock, stamp, utc_now
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import NotFound, Unavailable
from memory_mcp.services.sessions.model import Client, Connection
from memory_mcp.services.sessions.servers import RunningServer, ServerRegistry
from memory_mcp.services.sessions.storage import clients as storage

log = logging.getLogger(__name__)


@dataclass
class _LocalClient:
    """A client of this server."""

    client: Client
    connection: Connection
    close_connection: Callable[[], object]
    written: Client | None = None  # as it is stored in live.db for the other servers


class Clients:
    """Calls are counted in memory; `flush` stores them for the other servers, about once a second."""

    def __init__(
        self,
        db: SharedDatabase,
        servers: ServerRegistry,
        *,
        end_sessions: Callable[[Connection], None],
        request_disconnects: Callable[[], None],
        publish: Callable[[str], None] = lambda user: None,
        clock: Clock = utc_now,
    ) -> None:
        """`end_sessions` ends those of a connection; `request_disconnects` makes every other server disconnect its
        unwanted clients; `publish` is called with each user whose clients connected, disconnected or made a call."""
        self._db = db
        self._servers = servers
        self._end_sessions = end_sessions
        self._request_disconnects = request_disconnects
        self._publish = publish
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._here: dict[str, _LocalClient] = {}

    def count_call(
        self, connection: Connection, describe: Callable[[str], Client], close_connection: Callable[[], object]
    ) -> None:
        """Count a call of a client. Its name, version and address may have changed since its last call. `describe`
        receives the time."""
        self.register(connection, describe, close_connection, calls=1)

    def register(
        self,
        connection: Connection,
        describe: Callable[[str], Client],
        close_connection: Callable[[], object],
        *,
        calls: int = 0,
    ) -> None:
        """Register a client that is connected and has made no call so far."""
        client = describe(stamp(self._clock()))
        with self._lock:
            here = self._here.get(connection.id)
            if here is None:
                self._here[connection.id] = _LocalClient(replace(client, calls=calls), connection, close_connection)
            else:
                before = here.client
                here.client = replace(client, started_at=before.started_at, calls=before.calls + calls)

    def serve_at(self, url: str) -> None:
        """Store the URL at which this server is reached over HTTP."""
        self._servers.register_this()
        with self._db.write() as tx:
            storage.set_address(tx, self._servers.this, url)

    def addresses(self) -> "list[ServerAddress]":
        """Where servers of this data directory are reached over HTTP, the newest first."""
        return addresses(self._db, self._servers)

    def local(self) -> list[Client]:
        with self._lock:
            return [here.client for here in self._here.values()]

    def of(self, user: str) -> list[Client]:
        """A user's clients, on every running server."""
        with suppress(Unavailable):  # the newest are then missing
            self.flush()
        with self._db.read() as tx:
            found = storage.of(tx, user)
        running = {server for server in {server for server, _ in found} if self._servers.is_running(server)}
        return [client for server, client in found if server in running]

    def disconnect(self, user: str, client_id: str) -> None:
        """Disconnect a client from whichever server it is connected to. Raises NotFound."""
        client = next((client for client in self.of(user) if client.id == client_id), None)
        if client is None:
            raise NotFound("No client of yours with this id is connected. The list of sessions shows the ids.")
        if self._is_local(client_id):
            self.disconnect_local([client_id])
        else:
            with self._db.write() as tx:
                storage.mark_unwanted(tx, client_id)
            self._request_disconnects()

    def disconnect_local(self, client_ids: Iterable[str]) -> None:
        """Disconnect clients of this server, and end their sessions."""
        with self._lock:
            leaving = [here for id_ in client_ids if (here := self._here.get(id_))]
        for here in leaving:
            here.connection.closed = True  # first: a stream that is just being opened looks at it
            here.close_connection()
        for here in leaving:
            try:
                self._end_sessions(here.connection)
            except Unavailable as exc:  # housekeeping tries again
                log.warning("A session could not be ended: %s", exc.message)
        self.flush()

    def disconnect_unwanted(self) -> None:
        """Disconnect the clients of this server that another process has marked as unwanted."""
        with self._lock:
            if not self._here:
                return
        with self._db.read() as tx:
            unwanted = storage.unwanted(tx, self._servers.this)
        if unwanted:
            self.disconnect_local(unwanted)

    def flush(self) -> None:
        """Store new and changed clients for the other servers, and delete those that have disconnected."""
        with self._writing:
            with self._lock:
                left = [here for here in self._here.values() if here.connection.closed]
                news = [(here, here.client) for here in self._here.values() if here.written is not here.client]
            if not (left or news):
                return
            if not self._servers.is_this_registered:
                self._servers.register_this()
                self.delete_stale()
            with self._db.write() as tx:
                for _, client in news:
                    storage.save(tx, self._servers.this, client)
                for here in left:
                    storage.remove(tx, here.client.id)
            with self._lock:
                for here, client in news:
                    here.written = client
                for here in left:
                    self._here.pop(here.client.id, None)
        self._publish_all(here.client.user for here in (*left, *(here for here, _ in news)))

    def close(self) -> None:
        """Delete the clients of this server, which stops."""
        with self._writing:  # after a flush that is under way
            with self._lock:
                users = [here.client.user for here in self._here.values()]
                self._here.clear()
            if self._servers.is_this_registered:
                with self._db.write() as tx:
                    storage.remove_all_of(tx, self._servers.this)
        self._publish_all(users)

    def delete_stale(self) -> None:
        """Delete the clients of servers that have stopped."""
        with self._db.read() as tx:
            known = storage.servers(tx)
        for server_id in known:
            if not self._servers.is_running(server_id):
                with self._db.write() as tx:
                    users = storage.users_of(tx, server_id)
                    storage.remove_all_of(tx, server_id)
                self._publish_all(users)
        self._servers.delete_stale_locks()

    def _publish_all(self, users: Iterable[str]) -> None:
        for user in set(users):
            self._publish(user)

    def _is_local(self, client_id: str) -> bool:
        with self._lock:
            return client_id in self._here


def by_server(db: SharedDatabase, servers: ServerRegistry) -> list[tuple[RunningServer, list[Client]]]:
    """The running servers with their clients, the oldest server first."""
    running = servers.running()
    with db.read() as tx:
        return [(server, storage.all_of(tx, server.id)) for server in running]


@dataclass(frozen=True)
class ServerAddress:
    """Where a running server is reached over HTTP."""

    url: str
    pid: int | None  # None: the server is of a version that does not say


def addresses(db: SharedDatabase, servers: ServerRegistry) -> list[ServerAddress]:
    """Of running servers, the newest first."""
    with db.read() as tx:
        found = storage.addresses(tx)
    running = {server.id: server for server in servers.running()}
    known = [(running[server].started_at, url, running[server].pid) for server, url in found if server in running]
    others = [ServerAddress(url, None) for server, url in found if server not in running and servers.is_running(server)]
    known.sort(key=lambda one: one[0])
    return [*(ServerAddress(url, pid) for _, url, pid in reversed(known)), *others]
