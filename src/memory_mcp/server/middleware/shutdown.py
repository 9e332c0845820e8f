"""When a server ends, it answers or disconnects every client, so that none gets an error that looks like a bug."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.errors import Unavailable
from memory_mcp.server import error_encoding, shutdown
from memory_mcp.server.request_connection import disconnect
from memory_mcp.server.unanswered_requests import UnansweredRequests

STREAM_METHODS = {"GET", "HEAD"}  # event streams and downloads: the server does not wait for them


class ShutdownMiddleware:
    """ASGI middleware: once the server ends, a request is refused with 503. One that is cut off gets 503 as well, or
    loses its connection if its answer has begun."""

    def __init__(self, app: ASGIApp, requests: UnansweredRequests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._requests.is_ending:
            await _refuse(scope, receive, send, may_have_happened=False)
        elif scope["method"] in STREAM_METHODS:
            await self._answer(scope, receive, send)
        else:
            with self._requests.count():
                await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:  # uvicorn does not wait any longer
            if not self._requests.is_ending:
                raise
        if not self._requests.is_ending or answer.is_complete:
            return
        if answer.has_begun:
            disconnect(scope)
        else:
            await _refuse(scope, receive, send, may_have_happened=scope["method"] not in STREAM_METHODS)


class _Answer:
    """How far the answer to a request has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = self.is_complete = False

    async def send(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)
        self.is_complete = message["type"] == "http.response.body" and not message.get("more_body")


async def _refuse(scope: Scope, receive: Receive, send: Send, *, may_have_happened: bool) -> None:
    if may_have_happened:
        error = shutdown.write_cut_off("request")
    else:
        error = Unavailable("The server is stopping. Try again when it runs.", retry_after=shutdown.RETRY_AFTER_S)
    response = error_encoding.refusal(error)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)
