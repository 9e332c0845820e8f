"""Who is connected, to this server and to the others on the same data directory, and how to hang up on them."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from memory_mcp.clock import Clock, stamp, utc_now
from memory_mcp.errors import NotFound
from memory_mcp.sessions.model import Client, Connection
from memory_mcp.sessions.servers import Servers
from memory_mcp.sessions.storage import clients as storage
from memory_mcp.sqlite import Database


@dataclass
class _Here:
    """A client of this server."""

    client: Client
    connection: Connection
    hang_up: Callable[[], None]
    written: Client | None = None  # what the others know of it


class Clients:
    """Calls are counted in memory; `write_down` brings the others up to date, about once a second."""

    def __init__(self, db: Database, servers: Servers, clock: Clock = utc_now) -> None:
        self._db = db
        self._servers = servers
        self._clock = clock
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._here: dict[str, _Here] = {}

    def called(self, connection: Connection, meet: Callable[[str], Client], hang_up: Callable[[], None]) -> None:
        """Count a call of a client; one that is new is met first. `meet` gets the time."""
        now = stamp(self._clock())
        with self._guard:
            here = self._here.get(connection.id)
            if here is None:
                here = self._here[connection.id] = _Here(meet(now), connection, hang_up)
            here.client = replace(here.client, calls=here.client.calls + 1, last_call_at=now)

    def here(self) -> list[Client]:
        with self._guard:
            return [here.client for here in self._here.values()]

    def of(self, user: str) -> list[Client]:
        """A user's clients, on every living server."""
        self.write_down()
        with self._db.read() as tx:
            found = storage.of(tx, user)
        living = {server for server in {server for server, _ in found} if self._servers.is_living(server)}
        return [client for server, client in found if server in living]

    def disconnect(self, user: str, client_id: str) -> None:
        """Hang up on a client, wherever it is connected. Raises NotFound."""
        client = next((client for client in self.of(user) if client.id == client_id), None)
        if client is None:
            raise NotFound("No client of yours is connected under this id. The list of sessions shows who is.")
        if not self.hang_up(client_id):
            self._have_hung_up(client)

    def hang_up(self, client_id: str) -> bool:
        """False if it is not connected to this server."""
        with self._guard:
            here = self._here.get(client_id)
        if here is None:
            return False
        here.hang_up()
        here.connection.closed = True
        self.write_down()
        return True

    def hang_up_unwanted(self) -> None:
        """Hang up on those that another process was asked to disconnect."""
        with self._guard:
            if not self._here:
                return
        with self._db.read() as tx:
            unwanted = storage.unwanted(tx, self._servers.this)
        for client_id in unwanted:
            self.hang_up(client_id)

    def write_down(self) -> None:
        """Let the other servers know what is new, and forget whoever has left."""
        with self._writing:
            with self._guard:
                left = [here for here in self._here.values() if here.connection.closed]
                news = [(here, here.client) for here in self._here.values() if here.written is not here.client]
            if not (left or news):
                return
            if not self._servers.this_is_shown:
                self._servers.show_this()
                self.clear_the_dead()
            with self._db.write() as tx:
                for _, client in news:
                    storage.keep(tx, self._servers.this, os.getpid(), client)
                for here in left:
                    storage.remove(tx, here.client.id)
            with self._guard:
                for here, client in news:
                    here.written = client
                for here in left:
                    self._here.pop(here.client.id, None)

    def close(self) -> None:
        """This server stops."""
        with self._guard:
            self._here.clear()
        if self._servers.this_is_shown:
            with self._db.write() as tx:
                storage.remove_all_of(tx, self._servers.this)

    def clear_the_dead(self) -> None:
        """Forget the clients of servers that no longer live."""
        with self._db.read() as tx:
            known = storage.servers(tx)
        for server_id in known:
            if not self._servers.is_living(server_id):
                with self._db.write() as tx:
                    storage.remove_all_of(tx, server_id)
        self._servers.forget_the_dead()

    def _have_hung_up(self, client: Client) -> None:
        """Have another server do it: one that serves nobody else ends, any other looks twice a second."""
        with self._db.write() as tx:
            storage.mark_unwanted(tx, client.id)
            pid = storage.pid_of(tx, client.id)
        if client.transport == "stdio" and pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
