"""The limits of request bodies."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.server.request_context import PERSON, VERIFIED, owner_of
from memory_mcp.server.request_memory import BODY, HeldBody, RequestMemory
from memory_mcp.services import server_calls
from memory_mcp.text.json_counts import MAX_CONTAINERS, has_too_many_containers

MAX_BODY_BYTES = 4 * 1024 * 1024  # as under /mcp
MAX_UNKNOWN_BODY_BYTES = 64 * 1024  # from signed-out visitors


class BodyLimitMiddleware:
    """ASGI middleware: 413 for a body that is too large, before all of it is in memory, and for one with too many lists
    and objects, before it is parsed: parsing takes the event loop, which all users share. 503 if the bodies of one user
    are too large together."""

    def __init__(self, app: ASGIApp, max_user_bytes: int) -> None:
        self._app = app
        self._memory = RequestMemory(max_user_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = scope[BODY] = HeldBody(self._memory)
        with held.hold():
            await self._app(scope, _Body(scope, receive, held).take, send)


class _Body:
    """The body of one request. Errors are FastAPI's own: it would report any other as an unreadable body."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBody) -> None:
        self._scope = scope
        self._receive = receive
        self._held = held
        self._taken = bytearray()

    async def take(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            part = message.get("body", b"")
            self._held.add(owner_of(self._scope), len(part))
            self._taken += part
            self._check_size()
            if not message.get("more_body", False):
                _check_containers(self._taken)
                self._taken = bytearray()
        return message

    def _check_size(self) -> None:
        if self._scope["path"].startswith("/mcp"):
            return  # the SDK checks it, by the same limit
        max_bytes = MAX_BODY_BYTES if PERSON in self._scope else MAX_UNKNOWN_BODY_BYTES
        if VERIFIED in self._scope:
            max_bytes = server_calls.MAX_BODY_BYTES
        if len(self._taken) > max_bytes:
            raise HTTPException(413, f"A request brings at most {max_bytes:,} bytes.")


def _check_containers(body: bytearray) -> None:
    ascii_of_utf16 = body.replace(b"\0", b"")  # which some parsers accept
    if has_too_many_containers(ascii_of_utf16):
        raise HTTPException(413, f"A request brings at most {MAX_CONTAINERS:,} lists and objects.")
