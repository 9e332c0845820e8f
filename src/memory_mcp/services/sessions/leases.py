"""The running servers on one PostgreSQL: each renews its lease. That of a killed server ends soon."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from datetime import timedelta

from memory_mcp import __version__
from memory_mcp.clock import stamp, utc_now
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import AppError
from memory_mcp.services.sessions.servers import RunningServer, ServerKind, Servers
from memory_mcp.services.sessions.storage import leases as storage

log = logging.getLogger(__name__)

LEASE_S = 30.0
RENEWAL_INTERVAL_S = 5.0


class LeasedServers:
    """This server and the others on the same database, with the interface of ServerRegistry.

    The clocks of the servers must agree within a few seconds.
    """

    def __init__(self, db: SharedDatabase, local: Servers, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`local`: the servers on the same data directory, for commands such as `memory-mcp stop`."""
        self.kind: ServerKind = "stdio"
        self.this = local.this
        self._db = db
        self._local = local
        self._monotonic = monotonic
        self._steady_since = monotonic()  # when leases were last missing or could not be renewed
        self._lock = threading.Lock()
        self._own: dict[str, RunningServer] = {}
        self._on_lost: list[Callable[[], None]] = []
        self._closing = threading.Event()

    @property
    def is_this_registered(self) -> bool:
        return self.this in self._own

    def register_this(self) -> None:
        """Take a lease, by which other processes see that this server runs. A thread renews it."""
        if not self.is_this_registered:
            self._local.kind = self.kind
            self._local.register_this()
            self._take(RunningServer(self.this, os.getpid(), self.kind, __version__, stamp(utc_now())))
            threading.Thread(target=self._renew_until_closed, name="lease", daemon=True).start()

    def register_relay(self, relay_id: str) -> None:
        if relay_id not in self._own:
            self._take(RunningServer(relay_id, os.getpid(), "", __version__, stamp(utc_now())))

    def release_relay(self, relay_id: str) -> None:
        """Stop renewing a relay's lease. The next server of that relay takes it over before it ends."""
        with self._lock:
            self._own.pop(relay_id, None)

    def on_lost(self, callback: Callable[[], None]) -> None:
        self._on_lost.append(callback)

    def running(self) -> list[RunningServer]:
        with self._db.read() as tx:
            return [RunningServer(*row) for row in storage.valid(tx, tx.stamp)]

    def close(self) -> None:
        self._closing.set()
        self._local.close()
        with self._lock:
            own, self._own = self._own, {}
        if self.this in own:
            with self._db.write() as tx:
                storage.remove(tx, self.this)

    def is_running(self, server_id: str) -> bool:
        if server_id in self._own:
            return True
        with self._db.read() as tx:
            return storage.is_valid(tx, server_id, tx.stamp)

    @contextmanager
    def claim_stopped(self, server_id: str) -> Iterator[bool]:
        """Whether a server has stopped. Several processes may claim it at once. Not before this process has seen the
        database for as long as a lease takes: after an outage, leases have ended though their servers run."""
        if self.is_this_registered:
            self.renew()
        is_steady = self._monotonic() - self._steady_since >= LEASE_S
        yield is_steady and not self.is_running(server_id)

    def delete_stale_locks(self) -> None:
        """Delete leases that ended long ago."""
        self._local.delete_stale_locks()
        with self._db.write() as tx:
            storage.delete_ended(tx, stamp(tx.now - timedelta(seconds=10 * LEASE_S)))

    def delete_lock_if_stale(self, server_id: str) -> None:
        """Delete the lease of a relay that has left."""
        self.release_relay(server_id)
        with self._db.write() as tx:
            storage.remove(tx, server_id)

    def renew(self) -> None:
        """Renew the leases of this server and of its relays. Those that are missing are taken again, and what depends
        on them is stored again. Raises Unavailable."""
        with self._lock:
            own = list(self._own.values())
        try:
            with self._db.write() as tx:
                ends_at = stamp(tx.now + timedelta(seconds=LEASE_S))
                lost = [one for one in own if not storage.renew(tx, one.id, ends_at)]
                for one in lost:
                    storage.add(tx, astuple(one), ends_at)
        except AppError:
            self._steady_since = self._monotonic()
            raise
        if lost:
            self._steady_since = self._monotonic()
            for callback in self._on_lost:
                callback()

    def _take(self, server: RunningServer) -> None:
        with self._db.write() as tx:
            storage.add(tx, astuple(server), stamp(tx.now + timedelta(seconds=LEASE_S)))
        with self._lock:
            self._own[server.id] = server

    def _renew_until_closed(self) -> None:
        while not self._closing.wait(RENEWAL_INTERVAL_S):
            try:
                self.renew()
            except AppError as exc:
                log.warning("The lease of this server could not be renewed, will try again: %s", exc.message)
