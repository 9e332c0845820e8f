"""JSON-RPC, one message per line, over a pair of file descriptors such as stdin and stdout.

The SDK's own stdio transport hops to a thread three times for each call and drops lines it cannot read. This one waits
in the event loop where the system lets it, answers every line, and at the end of input lets calls under way finish.
"""

import asyncio
import json
import os
import re
import select
import stat
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

AT_ONCE = 65536  # bytes read at once
SAFE_WRITE = 4096  # bytes that a pipe takes without blocking once it says it takes any (PIPE_BUF)
MAX_LINE_BYTES = 16 * 1024 * 1024
TOO_DEEP = "This message is nested too deep. Send less, or flatter."
TOO_LONG = b"(too long)"  # stands for such a line, and is no JSON
MAX_REQUESTS_IN_FLIGHT = 256  # requests under way at once
LAST_WORDS = 5.0  # seconds that requests sent just before the end of input have to be answered


class _End:
    """One end of the wire as the SDK wants it: something that can be closed. The descriptor belongs to the process."""

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Answers(_End):
    """The way out. Messages are written whole, one after another."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at_once = None if _made_nonblocking(fd) else SAFE_WRITE
        self._turn = anyio.Lock(fast_acquire=True)  # one round of the event loop less for every answer
        self._writing: anyio.CancelScope | None = None
        self._given_up = False
        self._owed: set[types.RequestId] = set()
        self._fewer = anyio.Event()

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._turn:
            if not self._given_up:
                await self._write(line)
        if self._given_up:
            raise anyio.BrokenResourceError
        self.no_longer_owed(getattr(item.message, "id", None))

    async def _write(self, line: bytes) -> None:
        try:
            with anyio.CancelScope(shield=True) as self._writing:  # half a line would spoil the next one
                await _write(self._fd, line, self._at_once)
        except OSError:  # the client has closed its end
            self._give_up()

    def _give_up(self) -> None:
        """Nobody reads any more: whoever waits for answers to go out need not."""
        self._given_up = True
        self._fewer.set()
        if self._writing is not None:
            self._writing.cancel()

    def owed(self, id_: types.RequestId) -> None:
        self._owed.add(id_)

    def no_longer_owed(self, id_: Any) -> None:
        if isinstance(id_, int | str):
            self._owed.discard(id_)
        self._fewer.set()

    async def owing_at_most(self, count: int) -> None:
        """Wait until no more requests than that are unanswered, or nobody listens to answers."""
        while len(self._owed) > count and not self._given_up:
            self._fewer = anyio.Event()
            await self._fewer.wait()

    async def settle(self) -> None:
        """Wait until every request is answered; give up on a client that has left and does not read."""
        with anyio.move_on_after(LAST_WORDS):
            await self.owing_at_most(0)
            return
        self._give_up()


class Requests(_End):
    """The way in: every line that is a message. The others are answered here."""

    def __init__(self, fd: int, answers: Answers) -> None:
        self._fd = fd
        self._answers = answers
        self._lines: list[bytes] = []  # read and not handed on yet, the next one last
        self._begun = bytearray()  # a line whose end has not come
        self._too_long = False  # whether that line is past bearing: the rest of it is read and forgotten

    async def receive(self) -> SessionMessage:
        """The next message. Raises EndOfStream when there will be no more and all have been answered."""
        while True:
            await self._answers.owing_at_most(MAX_REQUESTS_IN_FLIGHT)  # who does not read answers is not read either
            line = await self._next_line()
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError as exc:
                # Dropped, it would leave whoever sent it waiting for ever.
                await self._answers.send(SessionMessage(_unreadable(line, exc)))
                continue
            self._note(message)
            return SessionMessage(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def _note(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._answers.owed(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answers.no_longer_owed((message.params or {}).get("requestId"))

    async def _next_line(self) -> bytes:
        while not self._lines:
            chunk = await _read(self._fd)
            if not chunk and not self._begun:
                await self._answers.settle()
                raise anyio.EndOfStream
            self._take(chunk or b"\n")  # the last line may lack its end
        return self._lines.pop()

    def _take(self, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = TOO_LONG if self._too_long else bytes(self._begun) + whole[0]
            self._begun.clear()
            self._too_long = False
            self._lines = [line for line in reversed(whole) if line.strip()]
        self._begun += rest
        if len(self._begun) > MAX_LINE_BYTES:
            self._too_long = True
            self._begun.clear()


async def _read(fd: int) -> bytes:
    """Some bytes, or none at the end of input."""
    if await _ready(fd, asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader):
        return os.read(fd, AT_ONCE)
    return await anyio.to_thread.run_sync(os.read, fd, AT_ONCE, abandon_on_cancel=True)


async def _write(fd: int, line: bytes, at_once: int | None) -> None:
    """All of it. Never blocks the event loop, whoever is slow to read. `at_once` is None if nothing blocks anyway."""
    rest = memoryview(line)
    while rest:
        if at_once is None or _takes_bytes(fd):
            with suppress(BlockingIOError):
                rest = rest[os.write(fd, rest[:at_once]) :]
                continue
        if not await _ready(fd, asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer):
            written = await anyio.to_thread.run_sync(os.write, fd, rest[:AT_ONCE])
            rest = rest[written:]


async def _ready(fd: int, watch: Callable[..., None], forget: Callable[[int], object]) -> bool:
    """Wait until a descriptor is ready. False where the loop cannot tell: Windows, and files."""
    ready = asyncio.Event()
    try:
        watch(fd, ready.set)
    except (NotImplementedError, PermissionError):
        return False
    try:
        await ready.wait()
    finally:
        forget(fd)
    return True


def _made_nonblocking(fd: int) -> bool:
    """Pipes and sockets that clients start us with. A terminal is shared with others, who do not expect it."""
    if os.name == "nt" or not (stat.S_ISFIFO(mode := os.fstat(fd).st_mode) or stat.S_ISSOCK(mode)):
        return False
    os.set_blocking(fd, False)
    return True


def _takes_bytes(fd: int) -> bool:
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    # An error or a closed other end counts: only writing tells which.
    return bool(poll.poll(0))


def _unreadable(line: bytes, exc: ValidationError) -> types.JSONRPCError:
    """The answer to a line that is no JSON-RPC message, under its id if it has one."""
    try:
        message = json.loads(line)
    except RecursionError:
        return _error(_early_id(line), types.PARSE_ERROR, TOO_DEEP)
    except ValueError:
        why = f"This line is over {MAX_LINE_BYTES} bytes long." if line is TOO_LONG else "This line is not JSON."
        return _error(_early_id(line), types.PARSE_ERROR, why)
    id_ = message.get("id") if isinstance(message, dict) else None
    first = exc.errors()[0]
    if first["type"] == "json_invalid" and "recursion" in first["msg"]:
        return _error(id_, types.INVALID_PARAMS, TOO_DEEP)
    if first["type"] == "json_invalid":  # Python reads half a surrogate pair, and nobody can write it
        return _error(id_, types.INVALID_PARAMS, "A text in this message holds half of a surrogate pair.")
    return _error(id_, types.INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.")


def _early_id(line: bytes) -> int | None:
    """The id of a message that cannot be read, if it stands where clients put it: before what is sent."""
    found = re.match(rb'[^\[]{0,80}?"id"\s*:\s*(\d{1,15})\b', line)
    return int(found[1]) if found else None


def _error(id_: Any, code: int, message: str) -> types.JSONRPCError:
    if isinstance(id_, bool) or not (isinstance(id_, int) or (isinstance(id_, str) and id_.isprintable())):
        id_ = None
    error = types.ErrorData(code=code, message=message, data={"error": "invalid"})
    return types.JSONRPCError(jsonrpc="2.0", id=id_, error=error)
