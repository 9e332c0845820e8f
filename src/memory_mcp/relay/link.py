"""The connection to the shared server: reach the one that runs, or start one."""

import json
import os
import socket
import struct
import sys

from memory_mcp import __version__
from memory_mcp.relay.options import NotShared, Options
from memory_mcp.relay.server_socket import ServerSocket

PROTOCOL = 1
KEY = "memory-mcp"  # of the messages between relay and server, beside those of MCP
LOG = "server.log"  # in the data directory
WELCOME_TIMEOUT_S = 60.0  # for a server that starts; a migration may take a while
MAX_SERVERS = 5  # tried, each of which ends before it accepts the client
MAX_READ_BYTES = 65_536


class Link:
    """A connection to a server that has accepted the hello."""

    def __init__(self, wire: socket.socket, received: bytes) -> None:
        self.wire = wire
        self.received = received  # after the server's answer to the hello


def reach(options: Options, server: ServerSocket, hello: dict[str, object]) -> Link:
    """Raises NotShared."""
    return _greet(options, server, hello)[0]


def ask(options: Options, server: ServerSocket, verb: str, **more: object) -> dict[str, object]:
    """One request beside MCP, to a server that is started if none runs. Raises NotShared."""
    hello = greeting(verb=verb, arguments=options.server_arguments, environ=options.environ, **more)
    reached, answer = _greet(options, server, hello)
    reached.wire.close()
    return answer


def _greet(options: Options, server: ServerSocket, hello: dict[str, object]) -> tuple[Link, dict[str, object]]:
    for _ in range(MAX_SERVERS):
        wire = server.connect() or _start(options, server)
        answer, rest = _exchange(wire, hello)
        if answer.get(KEY) in ("welcome", "answer"):
            return Link(wire, rest), answer
        wire.close()
        if answer.get(KEY) == "refused":
            raise NotShared(str(answer.get("reason")))
    raise NotShared(f"the shared server does not start; its log is {LOG} in the data directory")


def request(server: ServerSocket, verb: str, **more: object) -> dict[str, object] | None:
    """One request to a running server, beside MCP. None if there is none, or it does not answer."""
    wire = server.connect()
    if wire is None:
        return None
    with wire:
        try:
            return _exchange(wire, greeting(verb=verb, **more))[0] or None
        except NotShared:
            return None


def greeting(**more: object) -> dict[str, object]:
    return {KEY: "hello", "protocol": PROTOCOL, "version": __version__, **more}


def _exchange(wire: socket.socket, hello: dict[str, object]) -> tuple[dict[str, object], bytes]:
    """Send the hello. Returns the answer, which is empty if the server has ended, and what came after it."""
    _check_user(wire)
    received = b""
    try:
        wire.settimeout(WELCOME_TIMEOUT_S)
        wire.sendall(json.dumps(hello).encode() + b"\n")
        while b"\n" not in received:
            chunk = wire.recv(MAX_READ_BYTES)
            if not chunk:
                return {}, b""
            received += chunk
        wire.settimeout(None)
    except TimeoutError:
        raise NotShared("the shared server does not answer") from None
    except OSError:
        return {}, b""
    line, _, rest = received.partition(b"\n")
    return json.loads(line), rest


def _check_user(wire: socket.socket) -> None:
    """Raises NotShared if the process at the other end runs for another user."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] not in (os.getuid(), 0):
            raise NotShared("the socket of the shared server belongs to another user")


def _start(options: Options, server: ServerSocket) -> socket.socket:
    """Start a server, unless another relay has just done so. It inherits the socket, on which this and other relays
    can connect at once: they wait until it answers."""
    with server.lock():
        wire = server.connect()
        if wire is not None:
            return wire
        try:
            listening = server.listen()
            with listening:
                _spawn(options, listening.fileno())
        except OSError as exc:
            raise NotShared(f"the shared server cannot be started ({exc.strerror})") from None
    wire = server.connect()
    if wire is None:
        raise NotShared(f"the shared server ended at its start; its log is {LOG} in the data directory")
    return wire


def _spawn(options: Options, listening: int) -> None:
    """In a session of its own: signals for the client's process group do not reach it."""
    import subprocess  # a relay that finds a server does not need it

    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(os.path.join(options.data_dir, LOG), flags, 0o600)
    try:
        subprocess.Popen(
            [sys.executable, "-m", "memory_mcp.server.shared", str(listening), *options.server_arguments],
            pass_fds=[listening],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
