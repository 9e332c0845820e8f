"""Requests start and are answered in a fair order, so that a flood of one user's requests does not delay those of
others."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.server.admission import CURRENT, Admission, Permit
from memory_mcp.server.request_connection import is_closing
from memory_mcp.server.request_context import owner_of
from memory_mcp.text.json_counts import count_brackets

BODILESS_METHODS = {"GET", "HEAD"}


class AdmissionMiddleware:
    """ASGI middleware: a request is admitted once its body is there, so that one that comes slowly holds nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._admission = Admission()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = _Start(self._admission, scope, receive, send)
        try:
            if scope["method"] in BODILESS_METHODS:
                await start.admit()
            await self._app(scope, start.receive, start.send)
        finally:
            start.end()


class _Start:
    """The start of one request."""

    def __init__(self, admission: Admission, scope: Scope, receive: Receive, send: Send) -> None:
        self._admission = admission
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body_bytes = 0
        self._brackets = 0
        self._permit: Permit | None = None

    async def admit(self) -> None:
        self._permit = await self._admission.acquire(owner_of(self._scope), self._body_bytes, self._brackets)
        CURRENT.set(self._permit)

    def end(self) -> None:
        if self._permit:
            self._permit.end()

    async def receive(self) -> Message:
        message = await self._receive()
        if self._permit is None and message["type"] == "http.request":
            part = message.get("body", b"")
            self._body_bytes += len(part)
            self._brackets += count_brackets(part)
            if not message.get("more_body", False):
                await self.admit()
                if is_closing(self._scope):  # the client has not waited
                    return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        if self._permit:
            self._permit.count_answer(len(message.get("body", b"")))
            self._permit.release()
        await self._send(message)
