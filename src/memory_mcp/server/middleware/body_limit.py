"""The limit of request bodies, on paths where the SDK has none."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.server.rest.authentication import PERSON

MAX_BODY_BYTES = 4 * 1024 * 1024  # as under /mcp
MAX_UNKNOWN_BODY_BYTES = 64 * 1024  # from signed-out visitors


class BodyLimitMiddleware:
    """ASGI middleware: 413 for a body that is too large, before all of it is in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/mcp"):
            await self._app(scope, receive, send)
            return
        taken = 0

        async def take() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            max_bytes = MAX_BODY_BYTES if PERSON in scope else MAX_UNKNOWN_BODY_BYTES
            if taken > max_bytes:
                # FastAPI's own: it would report any other error as an unreadable body.
                raise HTTPException(413, f"A request brings at most {max_bytes:,} bytes.")
            return message

        await self._app(scope, take, send)
