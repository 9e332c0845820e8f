"""The connection to the shared server: reach the one that runs, or start one."""

import json
import os
import socket
import sys
import time

from memory_mcp import __version__
from memory_mcp.relay import protocol
from memory_mcp.relay.options import NotShared, RelayOptions
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.relay.streams import MAX_READ_BYTES
from memory_mcp.system import unix_sockets

LOG = "server.log"  # in the data directory
WELCOME_TIMEOUT_S = 15.0  # for a server that starts; a client gives up after 30 s or so
REQUEST_TIMEOUT_S = 300.0  # for a request beside MCP that may take long
RUNNING_TIMEOUT_S = 5.0  # for one to a server that runs
MAX_ANSWER_BYTES = 1024 * 1024
MAX_SERVERS = 3  # tried, each of which ends before it accepts the client


class ServerLink:
    """A connection to a server that has accepted the hello."""

    def __init__(self, wire: socket.socket, received: bytes) -> None:
        self.wire = wire
        self.received = received  # after the server's answer to the hello


def reach(options: RelayOptions, server: ServerSocket, hello: dict[str, object]) -> ServerLink:
    """Connect a client to the server, which is started if none runs. Raises NotShared."""
    return _reach(options, server, hello, WELCOME_TIMEOUT_S)[0]


def request(options: RelayOptions, server: ServerSocket, verb: str, **more: object) -> dict[str, object]:
    """Make one request beside MCP to the server, which is started if none runs. Raises NotShared."""
    hello = greeting(verb=verb, arguments=options.server_arguments, environ=options.environ, **more)
    reached, answer = _reach(options, server, hello, REQUEST_TIMEOUT_S)
    reached.wire.close()
    return answer


def request_running(server: ServerSocket, verb: str) -> dict[str, object] | None:
    """Make one request beside MCP to the server. None if none runs, or it does not answer."""
    wire = server.connect()
    if wire is None:
        return None
    with wire:
        try:
            return exchange(wire, greeting(verb=verb), RUNNING_TIMEOUT_S)[0] or None
        except NotShared:
            return None


def greeting(**more: object) -> dict[str, object]:
    return {protocol.KEY: protocol.HELLO, "protocol": protocol.VERSION, "version": __version__, **more}


def _reach(
    options: RelayOptions, server: ServerSocket, hello: dict[str, object], timeout_s: float
) -> tuple[ServerLink, dict[str, object]]:
    for _ in range(MAX_SERVERS):
        wire = server.connect() or _start(options, server)
        answer, rest = exchange(wire, hello, timeout_s)
        if answer.get(protocol.KEY) in (protocol.WELCOME, protocol.ANSWER):
            return ServerLink(wire, rest), answer
        wire.close()
        if answer.get(protocol.KEY) == protocol.REFUSED:
            raise NotShared(str(answer.get("reason")))
    raise NotShared(f"the shared server does not start; its log is {LOG} in the data directory")


def exchange(wire: socket.socket, hello: dict[str, object], timeout_s: float) -> tuple[dict[str, object], bytes]:
    """Send the hello. Returns the answer, which is empty if the server has ended, and the bytes that came after it.

    Raises NotShared if the server does not answer as one of ours does, or runs for another user.
    """
    try:
        if not unix_sockets.identify(wire).is_trusted():
            raise NotShared("the socket of the shared server belongs to another user")
        wire.settimeout(timeout_s)
        wire.sendall(json.dumps(hello).encode() + b"\n")
        line, rest = _read_line(wire, time.monotonic() + timeout_s)
        wire.settimeout(None)
    except TimeoutError:
        raise NotShared("the shared server does not answer") from None
    except OSError:
        return {}, b""
    try:
        answer = json.loads(line or "{}")
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise NotShared("the shared server's answer cannot be read")
    return answer, rest


def _read_line(wire: socket.socket, deadline: float) -> tuple[bytes, bytes]:
    """The first line, empty if the server has ended, and the bytes after it. Raises TimeoutError, and NotShared for a
    line that is too long."""
    received = bytearray()
    while b"\n" not in received:
        if time.monotonic() > deadline:
            raise TimeoutError
        chunk = wire.recv(MAX_READ_BYTES)
        if not chunk:
            return b"", b""
        received += chunk
        if len(received) > MAX_ANSWER_BYTES:
            raise NotShared("the shared server's answer is too long")
    line, _, rest = bytes(received).partition(b"\n")
    return line, rest


def _start(options: RelayOptions, server: ServerSocket) -> socket.socket:
    """Start a server, unless another relay has just done so. It inherits the socket, on which this and other relays
    can connect at once: they wait until it answers. Raises NotShared."""
    try:
        with server.lock():
            wire = server.connect()
            if wire is not None:
                return wire
            with server.listen() as listening:
                _spawn(options, listening.fileno())
    except OSError as exc:
        raise NotShared(f"the shared server cannot be started ({exc.strerror})") from None
    wire = server.connect()
    if wire is None:
        raise NotShared(f"the shared server ended at its start; its log is {LOG} in the data directory")
    return wire


def _spawn(options: RelayOptions, listening: int) -> None:
    """Start the process in a session of its own: signals for the client's process group do not reach it."""
    import subprocess  # a relay that finds a server does not need it

    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
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
