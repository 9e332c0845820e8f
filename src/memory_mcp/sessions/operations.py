import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import filelock

from memory_mcp.clock import new_id
from memory_mcp.errors import Unavailable
from memory_mcp.sessions import storage
from memory_mcp.sessions.model import Connection, Session
from memory_mcp.sqlite import Database


class Hold(NamedTuple):
    connection_id: str
    user: str
    session_id: str


class Sessions:
    """Which sessions this server holds, and what is cleared when one ends.

    A session is held from its first write until its connection closes. What a session leaves behind goes when
    nobody holds it any more, here or in another process. A server that died is known by its free lock file, and
    the next one to start ends its sessions.
    """

    def __init__(self, db: Database, lock_folder: Path, *, persist: bool, idle_seconds: int) -> None:
        self._db = db
        self._lock_folder = lock_folder
        self._persist = persist
        self._idle_seconds = idle_seconds
        self._server_id = new_id()
        self._alive: filelock.BaseFileLock | None = None
        self._changing = threading.Lock()
        self._last_used: dict[Hold, float] = {}
        self._idling: set[Hold] = set()
        self._forgetters: list[Callable[[str, str], None]] = []

    def on_end(self, forget: Callable[[str, str], None]) -> None:
        """Call `forget(user, session_id)` when a session ends."""
        self._forgetters.append(forget)

    def choose(self, session: Session, session_id: str) -> Session:
        """Name the session of a connection. It comes before every other way of naming one."""
        session.connection.chosen_session = session_id
        return Session(session_id, session.connection)

    @contextmanager
    def keeping(self, user: str, session: Session) -> Iterator[None]:
        """Write something that belongs to a session inside this block: it is cleared when the session ends.

        Raises Unavailable if the session's connection has closed meanwhile.
        """
        held = Hold(session.connection.id, user, session.id)
        with self._changing:
            if session.connection.closed:
                raise Unavailable("The connection this call came from is closed.")
            if held not in self._last_used:
                self._hold(held)
            if session.connection.idles:
                self._idling.add(held)
            self._last_used[held] = time.monotonic()
            yield

    def touch(self, user: str, session: Session) -> None:
        """Note that a session is in use, so that it is not taken for idle."""
        held = Hold(session.connection.id, user, session.id)
        if held in self._last_used:
            self._last_used[held] = time.monotonic()

    def close(self, connection: Connection) -> None:
        """The connection is gone: end the sessions that only it held."""
        connection.closed = True
        self._release(held for held in list(self._last_used) if held.connection_id == connection.id)

    def close_all(self) -> None:
        """This server stops."""
        self._release(list(self._last_used))
        with self._changing:
            if self._alive is None:
                return
            with self._db.write() as tx:
                storage.remove_server(tx, self._server_id)
            self._bury(self._server_id, self._alive)
            self._alive = None

    def end_the_idle(self) -> None:
        """End sessions of a protocol without connections that nobody has used for the idle time."""
        oldest = time.monotonic() - self._idle_seconds
        self._release(held for held in list(self._idling) if self._last_used.get(held, oldest) <= oldest)

    def clear_the_dead(self) -> None:
        """End the sessions of servers that no longer live, and of no others."""
        with self._db.read() as tx:
            others = storage.other_servers(tx, self._server_id)
        for server_id in others:
            lock = self._lock_of(server_id)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                continue  # it lives
            with self._db.write() as tx:
                left = [Hold(*row) for row in storage.held_by(tx, server_id)]
                keep = storage.persists(tx, server_id)
                for held in left:
                    if storage.release(tx, server_id, *held) and not keep:
                        self._forget(held)
                storage.remove_server(tx, server_id)
            self._bury(server_id, lock)

    def _hold(self, held: Hold) -> None:
        self._show_alive()
        with self._db.write() as tx:
            storage.add_server(tx, self._server_id, self._persist)
            storage.hold(tx, self._server_id, *held)

    def _release(self, holds: Iterable[Hold]) -> None:
        with self._changing:
            for held in holds:
                if self._last_used.pop(held, None) is None:
                    continue
                self._idling.discard(held)
                # Forgetting happens inside: whoever takes the session up again waits here until it is empty, so
                # that nothing new is forgotten with the old.
                with self._db.write() as tx:
                    if storage.release(tx, self._server_id, *held) and not self._persist:
                        self._forget(held)

    def _forget(self, held: Hold) -> None:
        for forget in self._forgetters:
            forget(held.user, held.session_id)

    def _show_alive(self) -> None:
        if self._alive is None:
            self._lock_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._alive = self._lock_of(self._server_id)
            self._alive.acquire()

    def _lock_of(self, server_id: str) -> filelock.BaseFileLock:
        return filelock.FileLock(self._lock_folder / f"{server_id}.lock", thread_local=False)

    @staticmethod
    def _bury(server_id: str, lock: filelock.BaseFileLock) -> None:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
