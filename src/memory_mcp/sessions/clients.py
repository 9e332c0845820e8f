"""Who is connected, to this server and to the others on the same data directory, and how to hang up on them."""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from memory_mcp.clock import Clock, stamp, utc_now
from memory_mcp.engines.sqlite import Database
from memory_mcp.errors import NotFound, Unavailable
from memory_mcp.sessions.model import Client, Connection
from memory_mcp.sessions.servers import Servers
from memory_mcp.sessions.storage import clients as storage

log = logging.getLogger(__name__)


@dataclass
class _Here:
    """A client of this server."""

    client: Client
    connection: Connection
    hang_up: Callable[[], object]
    written: Client | None = None  # what the others know of it


class Clients:
    """Calls are counted in memory; `write_down` brings the others up to date, about once a second."""

    def __init__(
        self,
        db: Database,
        servers: Servers,
        *,
        end_sessions: Callable[[Connection], None],
        ask_others_to_look: Callable[[], None],
        tell: Callable[[str], None] = lambda user: None,
        clock: Clock = utc_now,
    ) -> None:
        """`end_sessions` ends those of a connection; `ask_others_to_look` has every other server look who of its
        clients is unwanted; `tell` is called with each user whose clients came, went or called."""
        self._db = db
        self._servers = servers
        self._end_sessions = end_sessions
        self._ask_others_to_look = ask_others_to_look
        self._tell = tell
        self._clock = clock
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._here: dict[str, _Here] = {}

    def called(self, connection: Connection, meet: Callable[[str], Client], hang_up: Callable[[], object]) -> None:
        """Count a call of a client. What it says of itself, and where from, may have changed since its last. `meet`
        gets the time."""
        self.met(connection, meet, hang_up, calls=1)

    def met(
        self, connection: Connection, meet: Callable[[str], Client], hang_up: Callable[[], object], *, calls: int = 0
    ) -> None:
        """Somebody is connected, without a call so far."""
        client = meet(stamp(self._clock()))
        with self._guard:
            here = self._here.get(connection.id)
            if here is None:
                self._here[connection.id] = _Here(replace(client, calls=calls), connection, hang_up)
            else:
                before = here.client
                here.client = replace(client, started_at=before.started_at, calls=before.calls + calls)

    def serve_at(self, url: str) -> None:
        """This server is reached over HTTP at this address."""
        self._servers.register_this()
        with self._db.write() as tx:
            storage.set_address(tx, self._servers.this, url)

    def here(self) -> list[Client]:
        with self._guard:
            return [here.client for here in self._here.values()]

    def of(self, user: str) -> list[Client]:
        """A user's clients, on every living server."""
        with suppress(Unavailable):  # the newest come later
            self.write_down()
        with self._db.read() as tx:
            found = storage.of(tx, user)
        living = {server for server in {server for server, _ in found} if self._servers.is_running(server)}
        return [client for server, client in found if server in living]

    def disconnect(self, user: str, client_id: str) -> None:
        """Hang up on a client, wherever it is connected. Raises NotFound."""
        client = next((client for client in self.of(user) if client.id == client_id), None)
        if client is None:
            raise NotFound("No client of yours is connected under this id. The list of sessions shows who is.")
        if self._is_here(client_id):
            self.hang_up([client_id])
        else:
            with self._db.write() as tx:
                storage.mark_unwanted(tx, client_id)
            self._ask_others_to_look()

    def hang_up(self, client_ids: Iterable[str]) -> None:
        """Hang up on clients of this server, and end their sessions."""
        with self._guard:
            leaving = [here for id_ in client_ids if (here := self._here.get(id_))]
        for here in leaving:
            here.connection.closed = True  # first: a stream that is just being opened looks at it
            here.hang_up()
        for here in leaving:
            try:
                self._end_sessions(here.connection)
            except Unavailable as exc:  # housekeeping tries again
                log.warning("A session could not be ended: %s", exc.message)
        self.write_down()

    def hang_up_unwanted(self) -> None:
        """Hang up on those that another process was asked to disconnect."""
        with self._guard:
            if not self._here:
                return
        with self._db.read() as tx:
            unwanted = storage.unwanted(tx, self._servers.this)
        if unwanted:
            self.hang_up(unwanted)

    def write_down(self) -> None:
        """Let the other servers know what is new, and forget whoever has left."""
        with self._writing:
            with self._guard:
                left = [here for here in self._here.values() if here.connection.closed]
                news = [(here, here.client) for here in self._here.values() if here.written is not here.client]
            if not (left or news):
                return
            if not self._servers.is_this_registered:
                self._servers.register_this()
                self.clear_the_dead()
            with self._db.write() as tx:
                for _, client in news:
                    storage.keep(tx, self._servers.this, client)
                for here in left:
                    storage.remove(tx, here.client.id)
            with self._guard:
                for here, client in news:
                    here.written = client
                for here in left:
                    self._here.pop(here.client.id, None)
        self._tell_all(here.client.user for here in (*left, *(here for here, _ in news)))

    def close(self) -> None:
        """This server stops."""
        with self._writing:  # what is being written down now goes, too
            with self._guard:
                users = [here.client.user for here in self._here.values()]
                self._here.clear()
            if self._servers.is_this_registered:
                with self._db.write() as tx:
                    storage.remove_all_of(tx, self._servers.this)
        self._tell_all(users)

    def clear_the_dead(self) -> None:
        """Forget the clients of servers that no longer live."""
        with self._db.read() as tx:
            known = storage.servers(tx)
        for server_id in known:
            if not self._servers.is_running(server_id):
                with self._db.write() as tx:
                    users = storage.users_of(tx, server_id)
                    storage.remove_all_of(tx, server_id)
                self._tell_all(users)
        self._servers.delete_stale_locks()

    def _tell_all(self, users: Iterable[str]) -> None:
        for user in set(users):
            self._tell(user)

    def _is_here(self, client_id: str) -> bool:
        with self._guard:
            return client_id in self._here


def addresses(db: Database, servers: Servers) -> list[str]:
    """Where living servers are reached over HTTP, the newest first."""
    with db.read() as tx:
        found = storage.addresses(tx)
    return [url for server, url in found if servers.is_running(server)]
