"""JSON-RPC, one message per line, over a pair of file descriptors such as stdin and stdout.

The SDK's own stdio transport switches threads three times for each call and drops lines it cannot read. This one waits
in the event loop where the system supports it, answers every line, and at the end of input lets running calls finish.
"""

import asyncio
import json
import os
import re
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memory_mcp.relay.streams import MAX_LINE_BYTES, MAX_READ_BYTES, SAFE_WRITE_BYTES, LineBuffer, make_nonblocking
from memory_mcp.server import error_encoding
from memory_mcp.system import operating_system

TOO_DEEP = "This message is nested too deep. Send less, or flatter."
TOO_LONG = b"(too long)"  # stands for such a line, and is not JSON
MAX_REQUESTS_IN_FLIGHT = 256
DRAIN_TIMEOUT_S = 5.0  # for the answers to requests that were sent just before the end of input


class _Stream:
    """A stream as the SDK expects it. Closing it does nothing: the descriptor belongs to the process."""

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class AnswerStream(_Stream):
    """Writes messages to a client, each whole, one after another."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        can_poll = operating_system.THIS.can_poll_pipes
        self._max_bytes = None if can_poll and make_nonblocking(fd) else SAFE_WRITE_BYTES
        self._lock = anyio.Lock(fast_acquire=True)  # one round of the event loop less for every answer
        self._writing: anyio.CancelScope | None = None
        self._given_up = False
        self._pending: set[types.RequestId] = set()
        self._fewer = anyio.Event()
        self.muted: set[Any] = set()  # ids of requests that the client has not made itself: it gets no answer

    async def send(self, item: SessionMessage, /) -> None:
        id_ = getattr(item.message, "id", None)
        if self.muted and id_ in self.muted:
            self.muted.discard(id_)
        else:
            await self.send_line(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        self.remove_pending(id_)

    async def send_line(self, line: bytes) -> None:
        """Raises BrokenResourceError if the client no longer reads."""
        async with self._lock:
            if not self._given_up:
                await self._write(line + b"\n")
        if self._given_up:
            raise anyio.BrokenResourceError

    async def _write(self, line: bytes) -> None:
        try:
            with anyio.CancelScope(shield=True) as self._writing:  # half a line would spoil the next one
                await _write(self._fd, line, self._max_bytes)
        except OSError:  # the client has closed its end
            self.give_up()

    def give_up(self) -> None:
        """Stop writing, and wake all that wait for answers to be written: the client no longer reads."""
        self._given_up = True
        self._fewer.set()
        if self._writing is not None:
            self._writing.cancel()

    def add_pending(self, id_: types.RequestId) -> None:
        self._pending.add(id_)

    def remove_pending(self, id_: Any) -> None:
        if isinstance(id_, int | str):
            self._pending.discard(id_)
        self._fewer.set()

    async def wait_for_pending(self, count: int) -> None:
        """Wait until at most `count` requests are unanswered, or the client no longer reads."""
        while len(self._pending) > count and not self._given_up:
            self._fewer = anyio.Event()
            await self._fewer.wait()

    async def settle(self) -> None:
        """Wait until every request is answered; give up on a client that has left and does not read."""
        with anyio.move_on_after(DRAIN_TIMEOUT_S):
            await self.wait_for_pending(0)
            return
        self.give_up()


class RequestStream(_Stream):
    """Reads a client's messages. It answers lines that are not messages with an error."""

    def __init__(self, fd: int, answers: AnswerStream) -> None:
        self._fd = fd
        self._answers = answers
        self._lines: list[bytes] = []  # read but not handled yet, the next one last
        self.hands_over = False  # another server goes on: half a line is not handled, nor is an open stream ended
        self._buffer = LineBuffer()
        self._too_long = False  # the line in the buffer is over the limit: the rest of it is dropped

    async def receive(self) -> SessionMessage:
        """The next message. Raises EndOfStream when there will be no more and all have been answered."""
        while True:
            # A client that reads no answers is not read either.
            await self._answers.wait_for_pending(MAX_REQUESTS_IN_FLIGHT)
            line = await self._next_line()
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError as exc:
                call = _call_with_lone_surrogates(line)
                if call is None:
                    # Without an answer the client would wait for ever.
                    await self._answers.send(SessionMessage(_unreadable(line, exc)))
                    continue
                message = call
            self._track(message)
            return SessionMessage(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def prepend(self, lines: Sequence[bytes]) -> None:
        """Lines to handle before those that are read."""
        self._lines[:0] = reversed(lines)

    def _track(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._answers.add_pending(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answers.remove_pending((message.params or {}).get("requestId"))

    async def _next_line(self) -> bytes:
        while not self._lines:
            chunk = await _read(self._fd)
            if not chunk and (self.hands_over or not self._buffer.partial):
                await self._answers.settle()
                if self.hands_over:
                    self._answers.give_up()
                raise anyio.EndOfStream
            self._take(chunk or b"\n")  # the last line may lack its end
        return self._lines.pop()

    def _take(self, chunk: bytes) -> None:
        whole = self._buffer.add(chunk)
        if whole:
            whole[0] = TOO_LONG if self._too_long else whole[0]
            self._too_long = False
            self._lines = [line for line in reversed(whole) if line.strip()]
        if len(self._buffer.partial) > MAX_LINE_BYTES:
            self._too_long = True
            self._buffer.partial.clear()


async def _read(fd: int) -> bytes:
    """Some bytes, or none at the end of input."""
    if await _ready(fd, asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader):
        return os.read(fd, MAX_READ_BYTES)
    return await anyio.to_thread.run_sync(os.read, fd, MAX_READ_BYTES, abandon_on_cancel=True)


async def _write(fd: int, line: bytes, max_bytes: int | None) -> None:
    """Write all of it. Never blocks the event loop. `max_bytes` is None for a non-blocking descriptor."""
    rest = memoryview(line)
    while rest:
        if max_bytes is None or _takes_bytes(fd):
            with suppress(BlockingIOError):
                rest = rest[os.write(fd, rest[:max_bytes]) :]
                continue
        if not await _ready(fd, asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer):
            written = await anyio.to_thread.run_sync(os.write, fd, rest[:MAX_READ_BYTES])
            rest = rest[written:]


async def _ready(fd: int, watch: Callable[..., None], unwatch: Callable[[int], object]) -> bool:
    """Wait until a descriptor is ready. False where the loop cannot watch it: on Windows, and for files."""
    ready = asyncio.Event()
    try:
        watch(fd, ready.set)
    except (NotImplementedError, PermissionError):
        return False
    try:
        await ready.wait()
    finally:
        unwatch(fd)
    return True


def _takes_bytes(fd: int) -> bool:
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    # Also true for an error or a closed other end: the write then raises it.
    return bool(poll.poll(0))


def _call_with_lone_surrogates(line: bytes) -> types.JSONRPCRequest | None:
    """A call of a tool that the parser of messages refuses because its arguments hold halves of surrogate pairs. The
    tool refuses it as well, and its answer names the field. None for any other line."""
    try:
        message = json.loads(line)
        request = types.jsonrpc_message_adapter.validate_json(
            json.dumps(message, ensure_ascii=False).encode(errors="replace"), by_name=False
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, types.JSONRPCRequest) or request.method != "tools/call":
        return None
    arguments = message["params"].get("arguments") if request.params else None
    params = {**(request.params or {}), "arguments": arguments}
    is_whole = isinstance(arguments, dict) and (request.id, params) == (message["id"], message["params"])
    return request.model_copy(update={"params": params}) if is_whole else None


def _unreadable(line: bytes, exc: ValidationError) -> types.JSONRPCError:
    """The answer to a line that is not a JSON-RPC message, under its id if it has one."""
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
    if first["type"] == "json_invalid":  # json.loads accepts half a surrogate pair, which UTF-8 cannot encode
        return _error(id_, types.INVALID_PARAMS, "A text in this message holds half of a surrogate pair.")
    return _error(id_, types.INVALID_REQUEST, error_encoding.NOT_JSON_RPC)


def _early_id(line: bytes) -> int | None:
    """The id of a message that cannot be read, if it comes before the params, as clients write it."""
    found = re.match(rb'[^\[]{0,80}?"id"\s*:\s*(\d{1,15})\b', line)
    return int(found[1]) if found else None


def _error(id_: Any, code: int, message: str) -> types.JSONRPCError:
    if isinstance(id_, bool) or not (isinstance(id_, int) or (isinstance(id_, str) and id_.isprintable())):
        id_ = None
    return types.JSONRPCError(jsonrpc="2.0", id=id_, error=error_encoding.malformed(code, message))
