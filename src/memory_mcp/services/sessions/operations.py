import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from memory_mcp.caller import Caller
from memory_mcp.clock import stamp
from memory_mcp.engines.transactions import SharedDatabase, Write
from memory_mcp.errors import Unavailable, Unusable
from memory_mcp.services.sessions.choices import SessionChoices
from memory_mcp.services.sessions.model import Connection, Session
from memory_mcp.services.sessions.servers import ServerRegistry
from memory_mcp.services.sessions.storage import holds as storage

log = logging.getLogger(__name__)

MAX_CLIENTS_WITHOUT_HANDSHAKE = 10_000  # remembered: their protocol version has no connections
MAX_USER_CLIENTS_WITHOUT_HANDSHAKE = 1_000  # of one user


class Hold(NamedTuple):
    connection_id: str
    user: str
    session_id: str
    is_named: bool  # a client chose the name, and may use it again later

    @classmethod
    def of(cls, user: str, session: Session) -> "Hold":
        return cls(session.connection.id, user, session.id, session.is_named)


@dataclass
class _Used:
    """A hold's connection, and when it was last in use."""

    connection: Connection
    at: float

    def is_over(self, oldest: float) -> bool:
        idle = self.connection.ends_when_idle and not self.connection.streams and self.at <= oldest
        return self.connection.closed or idle


class Sessions:
    """The sessions that this server holds, and the cleanup when one ends.

    A connection holds a session from the first write, or from the first use if other connections may use the name,
    until the connection closes. The data of a session is deleted when no connection of any process holds it any more.
    A server that was killed is recognized by its free lock file, and the next one to start ends its sessions. Those of
    a relay belong to its own lock file: they stay while the relay looks for another server.
    """

    def __init__(
        self,
        db: SharedDatabase,
        servers: ServerRegistry,
        *,
        persist: bool,
        persist_days: int,
        idle_seconds: int,
        choices: SessionChoices | None = None,
    ) -> None:
        self._db = db
        self._servers = servers
        self._choices = choices
        self._persist = persist
        self._persist_days = persist_days
        self._idle_seconds = idle_seconds
        self._hold_lock = threading.RLock()  # for holding and releasing, with their writes
        self._lock = threading.Lock()  # for the two dictionaries below, held briefly
        self._held: dict[Hold, _Used] = {}
        self._without_handshake: dict[str, dict[tuple[str | None, str], _Used]] = {}  # by user; the longest idle first
        self._on_end: list[Callable[[str, Sequence[str]], None]] = []
        db.on_open(self._hold_again)
        servers.on_lost(lambda: self._hold_again(db))

    def on_end(self, delete_data: Callable[[str, Sequence[str]], None]) -> None:
        """Call `delete_data(user, session_ids)` when sessions end. If it raises Unavailable, it is called again later,
        except for an Unusable file."""
        self._on_end.append(delete_data)

    def connection_without_handshake(self, caller: Caller, client_name: str) -> Connection:
        """The connection that stands for a key and a client name, where the protocol has no handshake."""
        who = (caller.key_id, client_name)
        with self._lock:
            clients = self._without_handshake.setdefault(caller.user, {})
            used = clients.pop(who, None)
            if used is None or used.connection.closed:  # a client that was disconnected may come back
                own = uuid5(NAMESPACE_URL, f"memory-mcp:{caller.user}/{caller.key_id}/{client_name}").hex
                used = _Used(Connection(caller.user, own, ends_when_idle=True), 0.0)
            used.at = time.monotonic()
            clients[who] = used  # last: the longest idle come first
            self._end_clients_beyond_limits(caller.user)
            return used.connection

    def _end_clients_beyond_limits(self, user: str) -> None:
        """End the longest idle client of the user or, where all users together have too many, of the user with the most
        clients. A client that changes its name with each call fills neither the memory nor other users' share of it."""
        if len(self._without_handshake[user]) > MAX_USER_CLIENTS_WITHOUT_HANDSHAKE:
            self._end_oldest_idle(user)
        if sum(map(len, self._without_handshake.values())) > MAX_CLIENTS_WITHOUT_HANDSHAKE:
            self._end_oldest_idle(max(self._without_handshake, key=lambda user: len(self._without_handshake[user])))

    def _end_oldest_idle(self, user: str) -> None:
        clients = self._without_handshake[user]
        clients.pop(next(iter(clients))).connection.closed = True

    def choose(self, session: Session, session_id: str) -> Session:
        """Set the session of a connection, for every call that does not name one itself."""
        session.connection.chosen_session = session_id
        if self._choices is not None:
            self._choices.save(session.connection)
        chosen = replace(session, id=session_id)
        self.join(session.connection.user, chosen)
        return chosen

    def join(self, user: str, session: Session) -> Session:
        """Hold a session if it has a name, so that it lasts as long as this connection, even if others leave it.
        Returns the session that the client chose meanwhile at another server, if it did."""
        session = self._current(session)
        self.touch(user, session)
        if session.is_named and Hold.of(user, session) not in self._held:
            try:
                with self.hold_for_write(user, session):
                    pass
            except Unavailable as exc:  # reads work without a hold
                log.warning("A session could not be held: %s", exc.message)
        return session

    def _current(self, session: Session) -> Session:
        connection = session.connection
        if self._choices is None or session.id not in (connection.own_session, connection.chosen_session):
            return session  # the call itself names its session
        self._choices.load(connection)
        return replace(session, id=connection.chosen_session or connection.own_session)

    @contextmanager
    def hold_for_write(self, user: str, session: Session) -> Iterator[None]:
        """Hold a session while its data is written in this block; the data is deleted when the session ends.

        Raises Unavailable if the session's connection has closed meanwhile.
        """
        held = Hold.of(user, session)
        with self._hold_lock:
            if session.connection.closed:
                raise Unavailable("The connection this call came from is closed.")
            if held in self._held:
                self._db.check_identity()  # stores the hold again if the file was deleted
            else:
                self._hold(held, session.connection)
            self.touch(user, session)
            yield

    def touch(self, user: str, session: Session) -> None:
        """Mark a session as in use, so that it does not end as idle."""
        with self._lock:
            if used := self._held.get(Hold.of(user, session)):
                used.at = time.monotonic()

    @contextmanager
    def track_stream(self, session: Session) -> Iterator[None]:
        """Count an open stream of this session in this block: it keeps the connection in use without calls."""
        session.connection.streams += 1
        try:
            yield
        finally:
            session.connection.streams -= 1

    def close(self, connection: Connection) -> None:
        """Close a connection, and end the sessions that only it held."""
        with self._hold_lock:
            connection.closed = True
            self._release([held for held in self._held if held.connection_id == connection.id])
            if connection.relay:
                with self._db.write() as tx:
                    storage.remove_server(tx, connection.relay)
                self._servers.delete_lock_if_stale(connection.relay)  # that of a relay that was killed

    def resume(self, connection: Connection) -> None:
        """Hold what a relay's connection held at the server before this one."""
        self._servers.register_relay(str(connection.relay))
        with self._hold_lock, self._db.read() as tx:
            held = [
                Hold(connection.id, user, session, bool(is_named))
                for _, user, session, is_named in storage.held_by(tx, str(connection.relay))
            ]
            with self._lock:
                self._held |= {one: _Used(connection, time.monotonic()) for one in held}

    def hand_over(self, connection: Connection) -> None:
        """Leave the sessions of a relay's connection to the next server."""
        with self._hold_lock, self._lock:
            connection.closed = True
            self._servers.release_relay(str(connection.relay))
            self._held = {held: used for held, used in self._held.items() if used.connection is not connection}

    def close_all(self) -> None:
        """Release all sessions of this server, which stops."""
        with self._hold_lock:
            self._release([held for held, used in self._held.items() if not used.connection.relay])
            if self._servers.is_this_registered:
                with self._db.write() as tx:
                    storage.remove_server(tx, self._servers.this)

    def end_idle(self) -> None:
        """End the sessions without a connection that have been idle too long, and those of closed connections that
        could not be ended when they closed."""
        oldest = time.monotonic() - self._idle_seconds
        with self._hold_lock:
            self._release([held for held, used in self._held.items() if used.is_over(oldest)])
        with self._lock:
            for user, clients in list(self._without_handshake.items()):
                for who in [who for who, used in clients.items() if used.is_over(oldest)]:
                    clients.pop(who).connection.closed = True
                if not clients:
                    del self._without_handshake[user]
        if self._choices is not None:
            self._choices.delete_idle(self._idle_seconds)

    def end_stale(self) -> None:
        """End the sessions of servers that have stopped."""
        with self._db.read() as tx:
            others = storage.other_servers(tx, self._servers.this)
        for server_id in others:
            with self._servers.claim_stopped(server_id) as is_stopped:
                if is_stopped:
                    self._end_all_of(server_id)

    def delete_expired(self) -> None:
        """Delete the data that unnamed sessions left more than `persist_days` ago."""
        with self._db.read() as tx:
            before = stamp(tx.now - timedelta(days=self._persist_days))
            if not storage.has_expired(tx, before):
                return
        with self._hold_lock, self._db.write() as writing:
            self._delete_data(storage.delete_expired(writing, before))

    def _end_all_of(self, server_id: str) -> None:
        with self._db.write() as tx:
            held = [
                Hold(connection, user, session, bool(is_named))
                for connection, user, session, is_named in storage.held_by(tx, server_id)
            ]
            self._release_in(tx, server_id, held, storage.persists(tx, server_id))
            storage.remove_server(tx, server_id)

    def _hold_again(self, db: SharedDatabase) -> None:
        """Store this server's holds again, if another process deleted the file or ended them."""
        with self._lock:
            held = {one: self._holder_of(used.connection) for one, used in self._held.items()}
        if not held:
            return
        with db.write() as tx:
            for one, holder in held.items():
                storage.add_server(tx, holder, self._persist)
                storage.hold(tx, holder, *one)

    def _hold(self, held: Hold, connection: Connection) -> None:
        self._register_holder(connection)
        with self._db.write() as tx:
            storage.add_server(tx, self._holder_of(connection), self._persist)
            storage.hold(tx, self._holder_of(connection), *held)
        with self._lock:
            self._held[held] = _Used(connection, time.monotonic())

    def _register_holder(self, connection: Connection) -> None:
        self._servers.register_this()
        if connection.relay:
            self._servers.register_relay(connection.relay)

    def _holder_of(self, connection: Connection) -> str:
        """Whose lock file shows that the sessions of a connection are in use."""
        return connection.relay or self._servers.this

    def _release(self, holds: Sequence[Hold]) -> None:
        """Release holds. If that fails they stay held, and `end_idle` tries again."""
        if not holds:
            return
        with self._db.write() as tx:
            for holder in {self._holder_of(self._held[held].connection) for held in holds}:
                of_it = [held for held in holds if self._holder_of(self._held[held].connection) == holder]
                self._release_in(tx, holder, of_it, self._persist)
        with self._lock:
            for held in holds:
                self._held.pop(held, None)

    def _release_in(self, tx: Write, server_id: str, holds: Sequence[Hold], persists: bool) -> None:
        # The data is deleted inside the transaction: a connection that uses the session again waits until it is empty,
        # so that no new data is deleted with the old.
        over = [held for held in holds if storage.release(tx, server_id, *held[:3])]
        if not persists:
            self._delete_data((held.user, held.session_id) for held in over)
            return
        for held in over:
            if not held.is_named:
                storage.save_ended(tx, held.user, held.session_id)

    def _delete_data(self, sessions: Iterable[tuple[str, str]]) -> None:
        """Delete all data of these sessions, as (user, session id)."""
        ended: dict[str, list[str]] = {}
        for user, session_id in sessions:
            ended.setdefault(user, []).append(session_id)
        for user, session_ids in ended.items():
            for delete_data in self._on_end:
                try:
                    delete_data(user, session_ids)
                except Unusable as exc:  # one family's damaged file: the other families delete theirs
                    log.warning("The data of ended sessions could not be deleted: %s", exc.message)
