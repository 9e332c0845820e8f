"""Peers: the other servers on the same data directory. They are notified of changes, so that their clients are, too.

Each server has a datagram socket in servers/, which costs nothing while nobody writes. It is a courtesy: a lost
message loses a notification and no memory. Where the system has no such sockets (Windows), clients of other processes
are not told.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from memory_mcp.changes import Change
from memory_mcp.clock import new_id
from memory_mcp.errors import Unavailable

log = logging.getLogger(__name__)

MAX_SOCKET_PATH_BYTES = 100  # bytes of a socket's path that every system takes
MAX_MESSAGE_BYTES = 1 << 16
LOOK = b"look"
PATIENCE = 0.1  # seconds for a server to take a message: its queue is short, and emptied fast
DEAF = 5.0  # seconds in which one that did not is left alone


class Peers:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{new_id()[:12]}.sock"
        self._socket: socket.socket | None = None
        self._deaf_until: dict[Path, float] = {}

    def hear(self, listener: Callable[[Change], None], look: Callable[[], None] = lambda: None) -> None:
        """Call `listener` for every change another server tells of, and `look` when one asks to look for clients that
        are to be disconnected. Both from a thread of its own."""
        if not hasattr(socket, "AF_UNIX"):
            return
        receiving = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _address(self._own) as address:
                receiving.bind(address)
                Path(address).chmod(0o600)
        except OSError as exc:  # a file system without sockets
            receiving.close()
            log.warning("Clients will not hear of other servers' changes: %s", exc.strerror)
            return
        self._socket = receiving
        self._reach(lambda sending, address: sending.connect(address))
        threading.Thread(target=self._receive, args=(receiving, listener, look), name="peers", daemon=True).start()

    def tell(self, change: Change) -> None:
        """Tell every other server. Never fails: whoever does not listen misses it."""
        message = json.dumps(asdict(change)).encode()
        self._reach(lambda sending, address: sending.sendto(message, address))

    def ask_to_look(self) -> None:
        """Ask every other server to look for clients that are to be disconnected."""
        self._reach(lambda sending, address: sending.sendto(LOOK, address))

    def close(self) -> None:
        if self._socket is not None:
            self._own.unlink(missing_ok=True)
            with suppress(OSError):  # not every system shuts a socket that is not connected
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for messages
            self._socket.close()

    def _reach(self, greet: Callable[[socket.socket, str], object]) -> None:
        """Reach out to every other server, and forget those that died."""
        with suppress(OSError):
            others = [path for path in self._folder.glob("*.sock") if path != self._own]
            for path in others:
                if time.monotonic() < self._deaf_until.get(path, 0.0):
                    continue
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                    sending.settimeout(PATIENCE)
                    if not _greet(sending, path, greet):
                        self._deaf_until[path] = time.monotonic() + DEAF

    @staticmethod
    def _receive(receiving: socket.socket, listener: Callable[[Change], None], look: Callable[[], None]) -> None:
        with suppress(OSError):  # closed: the server stops
            while message := receiving.recv(MAX_MESSAGE_BYTES):
                try:
                    if message == LOOK:
                        look()
                        continue
                    fields = json.loads(message)
                    topics = tuple(fields.get("topics", ()))  # older servers have none
                    where = fields.get("namespace")
                    listener(Change(fields["user"], tuple(fields["uris"]), fields["list_changed"], topics, where))
                except (ValueError, KeyError, TypeError):
                    log.warning("A neighbour said something nobody understands")
                except Unavailable as exc:
                    log.warning("A neighbour asked in vain: %s", exc.message)


def _greet(sending: socket.socket, path: Path, greet: Callable[[socket.socket, str], object]) -> bool:
    """False if the other server does not take the message."""
    try:
        with _address(path) as address:
            greet(sending, address)
    except (ConnectionRefusedError, FileNotFoundError):
        path.unlink(missing_ok=True)  # its server died
    except OSError:
        return False
    return True


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """The path, or on Linux a short way to it: sockets take names of about 100 bytes only."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
