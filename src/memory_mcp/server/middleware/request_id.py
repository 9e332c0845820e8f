"""An id for each HTTP request: in its answer, and in every line that the server logs for it."""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp import logs
from memory_mcp.clock import new_id

HEADER = "x-request-id"
GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")  # what a proxy may give; anything else is replaced


class RequestIdMiddleware:
    """ASGI middleware, outside of all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if GIVEN_ID.fullmatch(given) else new_id()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        token = logs.request_id.set(request_id)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            logs.request_id.reset(token)
