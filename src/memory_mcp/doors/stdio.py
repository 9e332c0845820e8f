"""The stdio door: one client, the process that started us. It ends at EOF, on a signal, or when that process dies."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import new_id
from memory_mcp.doors.mcp import Line, McpDoor, local_caller
from memory_mcp.doors.sdk import ReadStream, WriteStream
from memory_mcp.sessions import Connection

log = logging.getLogger(__name__)

LAST_WORDS = 5.0  # seconds that requests sent just before EOF have to be answered
LOOK_FOR_PARENT = 2.0  # seconds between two looks, where the system cannot tell us

Stream = TypeVar("Stream")


def run(app: App) -> None:
    asyncio.run(_serve(app, local_line(app)))


def local_line(app: App) -> Line:
    return Line(local_caller(app), Connection(LOCAL_USER, app.settings.session_id or new_id()))


async def _serve(app: App, line: Line) -> None:
    door = McpDoor(app)
    door.start_telling()
    _leave_when_told(app)
    async with stdio_server() as (read, write):
        owed = _Owed()
        answers = _Answers(write, owed)
        await door.serve(line, _Requests(read, owed, answers), answers)


def _leave_when_told(app: App) -> None:
    """End on SIGTERM, SIGINT and the death of the parent. The thread that waits for stdin cannot be woken, so the
    process leaves without it, after everything that must be kept or cleared has been."""

    def leave() -> None:
        app.sessions.close_all()
        app.neighbours.close()
        os._exit(0)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows: the default handlers stay
            loop.add_signal_handler(number, leave)
    _watch_parent(loop, leave)


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


class _Owed:
    """The requests not answered yet, so that EOF right after a request does not cost its answer."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()
        self._all_answered = anyio.Event()

    def asked(self, message: Any) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._ids.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self.answered((message.params or {}).get("requestId"))

    def answered(self, id_: Any) -> None:
        if isinstance(id_, int | str):
            self._ids.discard(id_)
        if not self._ids:
            self._all_answered.set()

    async def settle(self) -> None:
        self._all_answered = anyio.Event()
        if self._ids:
            with anyio.move_on_after(LAST_WORDS):
                await self._all_answered.wait()


class _Wrapped(Generic[Stream]):
    def __init__(self, stream: Stream, owed: _Owed) -> None:
        self._stream = stream
        self._owed = owed

    async def aclose(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]  # both kinds of stream have it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _Requests(_Wrapped[ReadStream[SessionMessage | Exception]]):
    def __init__(self, stream: ReadStream[SessionMessage | Exception], owed: _Owed, answers: "_Answers") -> None:
        super().__init__(stream, owed)
        self._answers = answers

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._stream.receive()
            except anyio.EndOfStream:
                await self._owed.settle()
                raise
            if isinstance(item, SessionMessage):
                self._owed.asked(item.message)
                return item
            # The SDK would drop it, and whoever sent it would wait for ever.
            await self._answers.send(SessionMessage(_unreadable(item)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Answers(_Wrapped[WriteStream[SessionMessage]]):
    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        self._owed.answered(getattr(item.message, "id", None))


def _unreadable(exc: Exception) -> types.JSONRPCError:
    """The answer to a line that is no JSON-RPC message, under its id if it has one."""
    line = exc.errors()[0]["input"] if isinstance(exc, ValidationError) else None
    try:
        message = json.loads(line) if isinstance(line, str) else line
    except ValueError:
        error = types.ErrorData(code=types.PARSE_ERROR, message="This line is not JSON.")
        return types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    id_ = message.get("id") if isinstance(message, dict) else None
    error = types.ErrorData(
        code=types.INVALID_REQUEST,
        message="This is not a JSON-RPC message, or its text holds half of a surrogate pair.",
        data={"error": "invalid"},
    )
    return types.JSONRPCError(jsonrpc="2.0", id=id_ if isinstance(id_, int | str) else None, error=error)
