"""Answers the calls that other servers on the same database forward, in threads of their own: a forwarded call never
waits for threads that wait for such calls themselves."""

import asyncio
import json
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from memory_mcp.app import App
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.portals.forwarded_calls import ReceivedCall
from memory_mcp.families.portals.forwarder import Forwarder
from memory_mcp.server.disconnects import Disconnect
from memory_mcp.server.error_encoding import body as error_body
from memory_mcp.server.error_encoding import log_bug, refusal
from memory_mcp.server.request_context import VERIFIED
from memory_mcp.server.thread_pools import Shares, Workers
from memory_mcp.services.server_calls import (
    ANSWER,
    CONTENT_TYPE,
    ERROR,
    HEARTBEAT_S,
    PROGRESS,
    TokenRefused,
    VerifiedToken,
    encode_error,
    verify,
)

FAMILY = "portals"  # whose share of the threads is used
HEADERS = [
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx passes each line on at once: the other server waits for them
]


class ServerCalls:
    """ASGI application for POST requests with a verified token."""

    def __init__(self, app: App, forwarder: Forwarder) -> None:
        shares, wait_s = Shares(user_family=1 / 2, family=1.0), float(app.settings.queue_seconds)
        threads = {"reading": app.settings.read_threads, "writing": app.settings.write_threads}
        self.reading, self.writing = self.pools = [
            Workers(f"forwarded-{name}", count, shares=shares, max_wait_s=wait_s) for name, count in threads.items()
        ]
        self._app = app
        self._forwarder = forwarder
        self._is_closing = False

    def verify(self, token: str) -> VerifiedToken:
        """Raises TokenRefused, and Unavailable if the secret cannot be read."""
        return verify(self._forwarder.directory.secret(), self._forwarder.own_id, token)

    def close(self) -> None:
        """Cancel all calls: the server ends."""
        self._is_closing = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        verified: VerifiedToken = scope[VERIFIED]
        body = await Request(scope, receive).body()
        try:
            verified.check_body(body)
            received = ReceivedCall.parse(verified.caller, body)
        except TokenRefused as exc:
            await JSONResponse(error_body(Invalid(str(exc))), 401)(scope, receive, send)
            return
        except Invalid as exc:  # the other server has another version
            await refusal(exc)(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._answer(_ForwardedCall(received), receive, send)

    async def _answer(self, running: "_ForwardedCall", receive: Receive, send: Send) -> None:
        """A line at least every HEARTBEAT_S, so that the other server notices when this one is gone. If that one is
        gone, or this one stops, the call is cancelled."""
        disconnect = Disconnect()
        call = running.call
        workers, user = self.reading if call.reads_only else self.writing, call.caller.user
        work = asyncio.ensure_future(workers.run(partial(self._run, running), user=user, family=FAMILY))
        leaving = asyncio.ensure_future(disconnect.wait(receive))
        try:
            while not (work.done() or leaving.done()):
                await asyncio.wait((work, leaving), timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
                if self._is_closing:
                    running.cancelled.set()
                    break
                if not work.done():
                    await _send_line(send, _encode(running.progress()))
            if not leaving.done():
                await _send_line(send, await self._last_line(work, call), is_last=True)
        finally:
            running.cancelled.set()
            leaving.cancel()
            work.cancel()

    async def _last_line(self, work: "asyncio.Future[bytes]", call: ReceivedCall) -> bytes:
        if self._is_closing and call.reads_only and not work.done():
            return _encode({ERROR: encode_error(_stopping())})
        try:
            return b'{"%s": %s}' % (ANSWER.encode(), await work)
        except AppError as exc:
            return _encode({ERROR: encode_error(exc)})
        except Exception:  # noqa: BLE001  # the boundary: a bug is logged in full, and the caller sees no details
            return _encode({ERROR: encode_error(log_bug(call.operation))})

    def _run(self, running: "_ForwardedCall") -> bytes:
        self._forwarder.check_has_portals(running.call)
        return running.call.run(self._app.portals, running.set_progress, running.cancelled)


def _stopping() -> Unavailable:
    return Unavailable("The server that has these portals is stopping. Try again.", retry_after=1)


class _ForwardedCall:
    """One call, with the progress that it has reported last."""

    def __init__(self, call: ReceivedCall) -> None:
        self.call = call
        self.cancelled = threading.Event()
        self._progress: tuple[str, int, int | None] | None = None

    def set_progress(self, what: str, done: int, total: int | None) -> None:
        self._progress = (what, done, total)

    def progress(self) -> dict[str, Any]:
        """For a line; each is sent once."""
        progress, self._progress = self._progress, None
        return {PROGRESS: progress} if progress else {}


def _encode(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode()


async def _send_line(send: Send, line: bytes, *, is_last: bool = False) -> None:
    await send({"type": "http.response.body", "body": line + b"\n", "more_body": not is_last})
