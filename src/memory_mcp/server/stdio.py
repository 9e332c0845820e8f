"""The stdio door: one client, the process that started us. It ends at EOF, on a signal, or when that process dies."""

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
from memory_mcp.server.json_lines import Answers, Requests
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.request_context import Line, local_caller
from memory_mcp.sessions import Connection

LOOK_FOR_PARENT = 2.0  # seconds between two looks, where the system cannot tell us


def run(app: App) -> None:
    asyncio.run(_serve(app, local_line(app)))


def local_line(app: App) -> Line:
    named = app.settings.session_id
    connection = Connection(LOCAL_USER, named or new_id(), own_is_named=named is not None)
    return Line(local_caller(app), connection, "stdio")


async def _serve(app: App, line: Line) -> None:
    door = McpServer(app)
    door.start_notifications()
    leave = _leave_when_told(app, door)
    wire_in, wire_out = _claim_wire()
    answers = Answers(wire_out)
    with door.connected.ending(line.connection, leave):
        await door.serve(line, Requests(wire_in, answers), answers)
    shutdown.limit_shutdown()
    door.cancel_calls()


def _claim_wire() -> tuple[int, int]:
    """Take stdin and stdout for the protocol alone: a stray print goes to stderr, and a child reads nothing."""
    if sys.stdin is None or sys.stdout is None:  # closed: their numbers belong to other files by now
        raise Unavailable("Over stdio, stdin and stdout must be open: a client starts the server that way.")
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return wire_in, wire_out


def _leave_when_told(app: App, door: McpServer) -> Callable[[], None]:
    """End on SIGTERM, SIGINT and the death of the parent, and when what is returned is called. Where a thread waits for
    stdin it cannot be woken, so the process leaves without it, after everything that must be kept or cleared has
    been."""

    def leave() -> None:
        shutdown.limit_shutdown()
        try:
            door.cancel_calls()
            door.pools.writing.drain(shutdown.MAX_WRITE_S)
            app.stop()
        finally:
            shutdown.end_process(0)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM)):
        with suppress(NotImplementedError):  # Windows: the default handlers stay
            loop.add_signal_handler(number, leave)
    _watch_parent(loop, leave)
    return leave


def _watch_parent(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """Usually stdin closes with the parent; not if another process has inherited its other end."""
    parent = os.getppid()
    try:
        # The kernel wakes us: an idle server uses no CPU.
        loop.add_reader(os.pidfd_open(parent), leave)
    except (AttributeError, OSError):
        loop.create_task(_look_for_parent(parent, leave))  # lives as long as the loop, which holds on to it


async def _look_for_parent(parent: int, leave: Callable[[], None]) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  # no event to wait for: this is for systems without one
        await asyncio.sleep(LOOK_FOR_PARENT)
    leave()
