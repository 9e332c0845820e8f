"""Accepts relays on the data directory's socket, and serves each as a client over stdio."""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import anyio
import anyio.to_thread

from memory_mcp import __version__
from memory_mcp.errors import Invalid
from memory_mcp.relay import protocol
from memory_mcp.relay.options import NotShared
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.relay.streams import MAX_READ_BYTES
from memory_mcp.server.json_lines import AnswerStream, RequestStream
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.request_context import StreamClient
from memory_mcp.server.shared import hello as hellos
from memory_mcp.server.shared.hello import Hello
from memory_mcp.server.shared.hooks import HookAnswers
from memory_mcp.server.shared.resumption import lines_to_repeat, setup_lines
from memory_mcp.system import unix_sockets

log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 10.0
MAX_HANDOVER_S = 2.0  # for calls that are under way
MAX_UNFINISHED_HELLO_BYTES = hellos.MAX_HELLO_BYTES * 3 // 2  # of all relays together
ACCEPT_RETRY_S = 1.0  # after an error such as too many open files

AnswerVerb = Callable[[Hello], Awaitable[dict[str, Any]]]


class RelayListener:
    def __init__(self, server: McpServer, own: ServerSocket, listening: socket.socket) -> None:
        self._server = server
        self._own = own
        self._listening: socket.socket | None = listening
        self._identity = own.identity()
        self._connections: dict[asyncio.Task[None], _RelayedClient | None] = {}
        self._unfinished_hello_bytes = 0
        self._reconnects_on_demand = False
        # Requests beside MCP that another process of this user may make.
        self.verbs: dict[str, AnswerVerb] = {"hook": HookAnswers(server.app).answer}
        self.client_left = asyncio.Event()
        self.before_last_leaves: Callable[[], None] = lambda: None  # called in a thread

    @property
    def clients(self) -> int:
        return len(self._connections)

    @property
    def is_retired(self) -> bool:
        return self._listening is None

    @property
    def is_displaced(self) -> bool:
        """Whether its socket was removed, with the data directory or alone, so that new clients find no server."""
        return self._listening is not None and self._own.identity() != self._identity

    async def run(self) -> None:
        """Accept relays until `retire` is called."""
        loop = asyncio.get_running_loop()
        while (listening := self._listening) is not None:
            listening.setblocking(False)
            try:
                wire, _ = await loop.sock_accept(listening)
            except OSError as exc:
                log.warning("A relay could not be accepted, will retry: %s", exc.strerror)
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            task = loop.create_task(self._serve(wire))
            self._connections[task] = None  # until it has sent its hello
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task, None)
        self.client_left.set()
        if not task.cancelled() and task.exception():
            log.error("A connection of a relay failed", exc_info=task.exception())

    def retire(self) -> None:
        """Accept no more clients: the next relay starts another server. The clients of this one stay."""
        if self._listening is None:
            return
        try:
            with self._own.lock():
                self._own.remove(self._identity)
        except OSError:  # the data directory is gone
            log.warning("The folder of the shared server's socket is gone")
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        self._listening = None

    async def hand_over(self, *, on_demand: bool = False) -> None:
        """End every connection so that its relay goes on with the next server: now, or when its client next sends a
        message. Calls under way are finished first; the relay sends those that take too long again."""
        self.retire()
        self._reconnects_on_demand = on_demand
        clients = [client for client in self._connections.values() if client is not None]
        for client in clients:
            client.end_input()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=MAX_HANDOVER_S)
        for client in clients:
            client.close()

    async def _serve(self, wire: socket.socket) -> None:
        with wire:
            wire.setblocking(False)
            hello = await self._greet(wire)
            if hello is None:
                return
            if hello.verb != "serve":
                await self._answer_verb(wire, hello)
                return
            try:
                client = hellos.client_of(self._server.app, hello)
            except Invalid as exc:
                await _send(wire, {protocol.KEY: protocol.REFUSED, "reason": exc.message})
                return
            await self._serve_client(_RelayedClient(wire, client, hello))

    async def _greet(self, wire: socket.socket) -> Hello | None:
        """The hello of a relay that this server serves. None if it was refused."""
        if not unix_sockets.identify(wire).is_trusted():
            return None
        try:
            with anyio.fail_after(HELLO_TIMEOUT_S):
                hello = hellos.parse(await self._read_hello(wire))
        except Invalid as exc:
            await _send(wire, {protocol.KEY: protocol.REFUSED, "reason": exc.message})
            return None
        except OSError:  # it has ended, or sends nothing (TimeoutError)
            return None
        if hellos.is_newer(hello.version, __version__):
            log.info(
                "A client of version %s gets a server of its version. This one serves its clients to the end.",
                hello.version,
            )
            self.retire()
        if self._listening is None and hello.verb == "serve":
            await _send(wire, {protocol.KEY: protocol.LEAVING})
            return None
        return hello

    async def _read_hello(self, wire: socket.socket) -> bytes:
        """The first line, after which a relay waits for the answer. Raises Invalid if it is too long or does not end,
        and if the unfinished hellos of all relays together are too long."""
        loop, received = asyncio.get_running_loop(), bytearray()
        try:
            while not received.endswith(b"\n"):
                chunk = await loop.sock_recv(wire, MAX_READ_BYTES)
                received += chunk
                self._unfinished_hello_bytes += len(chunk)
                if not chunk or len(received) > hellos.MAX_HELLO_BYTES:
                    raise Invalid("the hello of the relay is too long or does not end")
                if self._unfinished_hello_bytes > MAX_UNFINISHED_HELLO_BYTES:
                    raise Invalid("the unfinished hellos of all relays together are too long")
            return bytes(received)
        finally:
            self._unfinished_hello_bytes -= len(received)

    async def _answer_verb(self, wire: socket.socket, hello: Hello) -> None:
        answer = self.verbs.get(hello.verb)
        if answer is None:
            await _send(
                wire, {protocol.KEY: protocol.REFUSED, "reason": f"the shared server does not know {hello.verb}"}
            )
            return
        try:
            await _send(wire, {protocol.KEY: protocol.ANSWER, **await answer(hello)})
        except Invalid as exc:
            await _send(wire, {protocol.KEY: protocol.REFUSED, "reason": exc.message})

    async def _serve_client(self, relayed: "_RelayedClient") -> None:
        self._connections[cast("asyncio.Task[None]", asyncio.current_task())] = relayed
        server, client = self._server, relayed.client
        server.app.sessions.resume(client.connection)
        await _send(relayed.wire, {protocol.KEY: protocol.WELCOME, "version": __version__, "pid": os.getpid()})
        with server.connected.call_on_close(client.connection, relayed.disconnect):
            await relayed.serve(server)
        if relayed.is_disconnected:
            await _send(relayed.wire, {protocol.KEY: protocol.GOODBYE})
        elif relayed.is_handed_over and self._reconnects_on_demand:
            await _send(relayed.wire, {protocol.KEY: protocol.PAUSED})
        server.connected.flush_soon()
        if self.clients == 1:  # its relay waits for the end of the connection
            await anyio.to_thread.run_sync(self.before_last_leaves)


def claim_socket(server: McpServer) -> RelayListener | None:
    """Serve the stdio clients of the data directory too, if no other server does and the settings allow it."""
    settings = server.app.settings
    own = ServerSocket(str(settings.data_dir))
    if settings.shared == "off":
        return None
    try:
        own.prepare()
        with own.lock():
            other = own.connect()
            if other is None:
                return RelayListener(server, own, own.listen())
            other.close()
    except (NotShared, OSError) as exc:
        log.info("This server does not serve stdio clients, so each starts a server of its own: %s.", exc)
    return None


class _RelayedClient:
    """A client behind a relay."""

    def __init__(self, wire: socket.socket, client: StreamClient, hello: Hello) -> None:
        self.wire = wire
        self.client = client
        self.hello = hello
        self.requests: RequestStream | None = None
        self.is_handed_over = False
        self.is_disconnected = False
        self._scope = anyio.CancelScope()

    async def serve(self, server: McpServer) -> None:
        answers = AnswerStream(self.wire.fileno())
        self.requests = RequestStream(self.wire.fileno(), answers)
        self.requests.hands_over = self.is_handed_over
        setup = setup_lines(self.hello, answers)
        self.requests.prepend([*setup, *await lines_to_repeat(server, self.hello, answers)])
        with self._scope:
            await server.serve(self.client, self.requests, answers, is_handed_over=lambda: self.is_handed_over)

    def disconnect(self) -> None:
        """A person has disconnected this client."""
        self.is_disconnected = True
        self._scope.cancel()

    def end_input(self) -> None:
        """Read no more. What was read is answered; the relay keeps the rest for the next server."""
        self.is_handed_over = True
        if self.requests is not None:
            self.requests.hands_over = True
        with suppress(OSError):  # the relay has ended
            self.wire.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Close the connection in both directions."""
        with suppress(OSError):
            self.wire.shutdown(socket.SHUT_RDWR)


async def _send(wire: socket.socket, message: dict[str, Any]) -> None:
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    try:
        await asyncio.get_running_loop().sock_sendall(wire, line)
    except OSError:  # the relay has ended
        log.debug("A relay has ended before it was answered")
