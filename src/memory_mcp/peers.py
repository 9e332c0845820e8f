"""Peers: the other servers on the same data. They are notified of changes, so that their clients are, too.

On one data directory each server has a datagram socket in servers/, which costs nothing while no server writes; on one
PostgreSQL, engines/postgres/notifications.py. Delivery is best effort: a lost message loses a notification and no
memory. Where the system has no such sockets (Windows), clients of other processes are not notified.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from memory_mcp.changes import Change
from memory_mcp.clock import new_id
from memory_mcp.errors import Unavailable
from memory_mcp.system import operating_system, unix_sockets

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 1 << 16
DISCONNECT_UNWANTED = b"look"
SEND_TIMEOUT_S = 0.1  # for a peer to accept a message: its queue is short and emptied fast
RETRY_INTERVAL_S = 5.0  # for which a peer that did not accept a message gets no further ones


class Peers(Protocol):
    def listen(
        self, listener: Callable[[Change], None], disconnect_unwanted: Callable[[], None] = lambda: None
    ) -> None:
        """Call `listener` for every change another server publishes, and `disconnect_unwanted` when another server has
        marked clients to disconnect. Both are called in a separate thread."""

    def publish(self, change: Change) -> None:
        """Send a change to every other server. Never fails: a server that does not listen misses it."""

    def request_disconnects(self) -> None:
        """Ask every other server to disconnect those of its clients that are marked for it."""

    def close(self) -> None: ...


class SocketPeers:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{new_id()[:12]}.sock"
        self._socket: socket.socket | None = None
        self._skip_until: dict[Path, float] = {}

    def listen(
        self, listener: Callable[[Change], None], disconnect_unwanted: Callable[[], None] = lambda: None
    ) -> None:
        if not operating_system.THIS.has_unix_sockets:
            return
        receiving = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with unix_sockets.short_path(str(self._own)) as address:
                receiving.bind(address)
                Path(address).chmod(0o600)
        except OSError as exc:  # a file system without sockets
            receiving.close()
            log.warning("Clients will not be notified of other servers' changes: %s", exc.strerror)
            return
        self._socket = receiving
        self._send_to_all(lambda sending, address: sending.connect(address))
        threading.Thread(
            target=self._receive, args=(receiving, listener, disconnect_unwanted), name="peers", daemon=True
        ).start()

    def publish(self, change: Change) -> None:
        message = encode(change)
        self._send_to_all(lambda sending, address: sending.sendto(message, address))

    def request_disconnects(self) -> None:
        self._send_to_all(lambda sending, address: sending.sendto(DISCONNECT_UNWANTED, address))

    def close(self) -> None:
        if self._socket is not None:
            self._own.unlink(missing_ok=True)
            with suppress(OSError):  # not every system shuts a socket that is not connected
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for messages
            self._socket.close()

    def _send_to_all(self, send: Callable[[socket.socket, str], object]) -> None:
        """Send to every other server, and delete the sockets of servers that have stopped."""
        with suppress(OSError):
            others = [path for path in self._folder.glob("*.sock") if path != self._own]
            for path in others:
                if time.monotonic() < self._skip_until.get(path, 0.0):
                    continue
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                    sending.settimeout(SEND_TIMEOUT_S)
                    if not _send(sending, path, send):
                        self._skip_until[path] = time.monotonic() + RETRY_INTERVAL_S

    @staticmethod
    def _receive(
        receiving: socket.socket, listener: Callable[[Change], None], disconnect_unwanted: Callable[[], None]
    ) -> None:
        with suppress(OSError):  # closed: the server stops
            while message := receiving.recv(MAX_MESSAGE_BYTES):
                dispatch(message, listener, disconnect_unwanted)


def encode(change: Change) -> bytes:
    return json.dumps(asdict(change)).encode()


def dispatch(message: bytes, listener: Callable[[Change], None], disconnect_unwanted: Callable[[], None]) -> None:
    """Do what another server's message says."""
    try:
        if message == DISCONNECT_UNWANTED:
            disconnect_unwanted()
            return
        fields = json.loads(message)
        topics = tuple(fields.get("topics", ()))  # older servers have none
        where = fields.get("namespace")
        listener(Change(fields["user"], tuple(fields["uris"]), fields["list_changed"], topics, where))
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("A message from another server could not be read")
    except Unavailable as exc:
        log.warning("A request of another server failed: %s", exc.message)


def _send(sending: socket.socket, path: Path, send: Callable[[socket.socket, str], object]) -> bool:
    """False if the other server does not accept the message."""
    try:
        with unix_sockets.short_path(str(path)) as address:
            send(sending, address)
    except (ConnectionRefusedError, FileNotFoundError):
        path.unlink(missing_ok=True)  # its server has stopped
    except OSError:
        return False
    return True
