"""Servers on one database notify each other through LISTEN and NOTIFY.

This needs a direct connection: a pooler in transaction mode does not pass notifications on. Delivery is best effort: if
a message is lost, a client misses a notification, and no memory is lost.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import psycopg

from memory_mcp.changes import Change
from memory_mcp.clock import new_id
from memory_mcp.engines.postgres.pool import connect
from memory_mcp.peers import DISCONNECT_UNWANTED, dispatch, encode

log = logging.getLogger(__name__)

Connection: TypeAlias = "psycopg.Connection[Any]"
CHANNEL = "memory_mcp"
MAX_PAYLOAD_BYTES = 7999  # of NOTIFY
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"  # nothing that must reach the disk
POLL_INTERVAL_S = 1.0  # between two checks whether this server is closing, and between two attempts to connect


class DatabasePeers:
    """The other servers on the same database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._own_id = new_id()[:12]
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._sender: Connection | None = None

    def listen(
        self, listener: Callable[[Change], None], disconnect_unwanted: Callable[[], None] = lambda: None
    ) -> None:
        """Start to receive. If the database cannot be reached now, a thread keeps trying."""
        connection = None
        with suppress(psycopg.Error):
            connection = self._subscribe()
        threading.Thread(
            target=self._receive, args=(connection, listener, disconnect_unwanted), name="database-peers", daemon=True
        ).start()

    def publish(self, change: Change) -> None:
        """Never fails. A server that is not listening misses the change."""
        self._send(encode(change).decode())

    def request_disconnects(self) -> None:
        self._send(DISCONNECT_UNWANTED.decode())

    def close(self) -> None:
        self._closing.set()
        with self._lock, suppress(psycopg.Error):
            if self._sender is not None:
                self._sender.close()

    def _send(self, message: str) -> None:
        payload = json.dumps([self._own_id, message], ensure_ascii=False)
        if len(payload.encode()) > MAX_PAYLOAD_BYTES:
            log.warning("A change was too large for other servers to be notified of it")
            return
        with self._lock:
            try:
                if self._closing.is_set():
                    return
                if self._sender is None or self._sender.closed:
                    self._sender = connect(self._url)
                self._sender.execute(_NOTIFY, (CHANNEL, payload))
            except psycopg.Error:
                log.warning("Other servers were not notified of a change: the database cannot be reached")

    def _subscribe(self) -> Connection:
        connection = connect(self._url)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _receive(
        self,
        connection: Connection | None,
        listener: Callable[[Change], None],
        disconnect_unwanted: Callable[[], None],
    ) -> None:
        while not self._closing.is_set():
            try:
                with connection or self._subscribe() as connection:
                    while not self._closing.is_set():
                        for notification in connection.notifies(timeout=POLL_INTERVAL_S):
                            self._dispatch(notification.payload, listener, disconnect_unwanted)
            except psycopg.Error:
                connection = None
                if not self._closing.wait(POLL_INTERVAL_S):
                    log.warning("Changes of other servers are missed until the database can be reached")

    def _dispatch(
        self, payload: str, listener: Callable[[Change], None], disconnect_unwanted: Callable[[], None]
    ) -> None:
        with suppress(ValueError, TypeError):  # another program's message
            sender_id, message = json.loads(payload)
            if sender_id != self._own_id:
                dispatch(str(message).encode(), listener, disconnect_unwanted)
