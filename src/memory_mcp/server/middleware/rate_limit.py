"""How often a user's keys may come, told in the headers people know."""

import math
from functools import partial

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.access import Allowance, Limits
from memory_mcp.errors import AppError, RateLimited
from memory_mcp.server.middleware.authentication import refusal
from memory_mcp.server.request_context import CALLER
from memory_mcp.server.thread_pools import Workers

WINDOW = 60  # seconds


class RateLimitMiddleware:
    """ASGI middleware for requests whose caller is known: 429 with Retry-After beyond what their plan allows. Only what
    asks something counts, not an open stream."""

    def __init__(self, app: ASGIApp, limits: Limits, workers: Workers) -> None:
        self._app = app
        self._limits = limits
        self._workers = workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = scope[CALLER].requests_a_minute if CALLER in scope and scope["method"] == "POST" else None
        if limit is None:
            await self._app(scope, receive, send)
            return
        user = scope[CALLER].user
        take = partial(self._limits.take, f"user {user}", limit)
        try:
            allowance = await self._workers.run(take, user=user, family="limits")
        except AppError as error:
            await refusal(error)(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                _write_headers(MutableHeaders(scope=message), allowance)
            await send(message)

        await (_refusal(allowance) if allowance.is_spent else self._app)(scope, receive, tell)


def _write_headers(headers: MutableHeaders, allowance: Allowance) -> None:
    headers["RateLimit-Policy"] = f"{allowance.limit};w={WINDOW}"
    headers["RateLimit-Limit"] = str(allowance.limit)
    headers["RateLimit-Remaining"] = str(allowance.remaining)
    headers["RateLimit-Reset"] = str(math.ceil(allowance.reset_after))


def _refusal(allowance: Allowance) -> JSONResponse:
    error = RateLimited(
        f"More than {allowance.limit} requests in a minute. Wait {math.ceil(allowance.retry_after)} s; "
        "`memory-mcp users plan` changes what a user may do.",
        retry_after=allowance.retry_after,
    )
    body = {"error": error.error, "message": error.public_message, "data": error.data}
    return JSONResponse(body, 429, {"Retry-After": str(error.data["retry_after"])})
