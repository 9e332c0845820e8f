"""The rate limit of a user's keys, and its headers."""

import math
from functools import partial

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.errors import AppError, RateLimited
from memory_mcp.server.error_encoding import refusal
from memory_mcp.server.request_context import CALLER
from memory_mcp.server.thread_pools import Workers
from memory_mcp.services.access import Allowance, Limits

WINDOW_S = 60


class RateLimitMiddleware:
    """ASGI middleware for requests whose caller is known: 429 with Retry-After beyond what their plan allows. Only
    requests count, not an open stream."""

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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _write_headers(MutableHeaders(scope=message), allowance)
            await send(message)

        await (refusal(_error(allowance)) if allowance.is_spent else self._app)(scope, receive, send_with_headers)


def _write_headers(headers: MutableHeaders, allowance: Allowance) -> None:
    headers["RateLimit-Policy"] = f"{allowance.limit};w={WINDOW_S}"
    headers["RateLimit-Limit"] = str(allowance.limit)
    headers["RateLimit-Remaining"] = str(allowance.remaining)
    headers["RateLimit-Reset"] = str(math.ceil(allowance.reset_after))


def _error(allowance: Allowance) -> RateLimited:
    return RateLimited(
        f"More than {allowance.limit} requests in a minute. Wait {math.ceil(allowance.retry_after)} s; "
        "`memory-mcp users plan` changes what a user may do.",
        retry_after=allowance.retry_after,
    )
