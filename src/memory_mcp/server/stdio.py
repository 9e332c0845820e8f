"""The stdio server: one client, the process that started us. It ends at EOF, on a signal, or when that process ends."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import new_id
from memory_mcp.errors import Unavailable
from memory_mcp.server import shutdown
from memory_mcp.server.json_lines import AnswerStream, RequestStream
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.request_context import StreamClient, local_caller
from memory_mcp.services.sessions import Connection

PARENT_POLL_INTERVAL_S = 2.0  # where the system sends no event


def run(app: App) -> None:
    asyncio.run(_serve(app, local_client(app)))


def local_client(app: App) -> StreamClient:
    named = app.settings.session_id
    connection = Connection(LOCAL_USER, named or new_id(), own_is_named=named is not None)
    return StreamClient(local_caller(app), connection, "stdio")


async def _serve(app: App, client: StreamClient) -> None:
    server = McpServer(app)
    server.start_notifications()
    exit_now = _exit_on_signals(app, server)
    wire_in, wire_out = _claim_wire()
    answers = AnswerStream(wire_out)
    with server.connected.call_on_close(client.connection, exit_now):
        await server.serve(client, RequestStream(wire_in, answers), answers)
    shutdown.limit_shutdown()
    server.cancel_calls()


def _claim_wire() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol: a stray print goes to stderr, and a child process reads nothing."""
    if sys.stdin is None or sys.stdout is None:  # closed: their numbers belong to other files by now
        raise Unavailable("Over stdio, stdin and stdout must be open: a client starts the server that way.")
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return wire_in, wire_out


def _exit_on_signals(app: App, server: McpServer) -> Callable[[], None]:
    """Exit on SIGTERM, SIGINT and the end of the parent process, and when the returned function is called. A thread
    that waits for stdin cannot be woken, so the process exits without it, after all data is stored or deleted."""

    def exit_now() -> None:
        shutdown.limit_shutdown()
        try:
            server.cancel_calls()
            server.pools.writing.drain(shutdown.MAX_WRITE_S)
            app.stop()
        finally:
            shutdown.end_process(0)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM)):
        with suppress(NotImplementedError):  # Windows: the default handlers stay
            loop.add_signal_handler(number, exit_now)
    _watch_parent(loop, exit_now)
    return exit_now


def _watch_parent(loop: asyncio.AbstractEventLoop, exit_now: Callable[[], None]) -> None:
    """Usually stdin closes when the parent ends, but not if another process has inherited the other end of it."""
    parent = os.getppid()
    try:
        # The kernel wakes us: an idle server uses no CPU.
        loop.add_reader(os.pidfd_open(parent), exit_now)
    except (AttributeError, OSError):
        loop.create_task(_poll_parent(parent, exit_now))  # the loop keeps a reference to it


async def _poll_parent(parent: int, exit_now: Callable[[], None]) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  # no event to wait for: this is for systems without one
        await asyncio.sleep(PARENT_POLL_INTERVAL_S)
    exit_now()
