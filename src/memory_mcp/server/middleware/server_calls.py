"""Lets other servers on the same database forward calls, and no other program."""

import logging
from collections.abc import Callable
from functools import partial

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.errors import AppError, Invalid
from memory_mcp.server.error_encoding import body, refusal
from memory_mcp.server.middleware.authentication import REFUSAL_BURST, REFUSALS_PER_S, bearer_of
from memory_mcp.server.middleware.pace import Pace
from memory_mcp.server.request_context import CALLER, VERIFIED, network_of_client
from memory_mcp.server.thread_pools import Workers
from memory_mcp.services.server_calls import PATH, TokenRefused, VerifiedToken

log = logging.getLogger(__name__)

OF_BROWSERS = ("origin", "cookie", "sec-fetch-site", "sec-fetch-mode")  # headers that no server sends


class ServerCallMiddleware:
    """ASGI middleware for the route of other servers: 401 for every request without a token that one of them signed for
    this server, before its body is read."""

    def __init__(self, app: ASGIApp, verify: Callable[[str], VerifiedToken] | None, workers: Workers) -> None:
        """`verify` raises TokenRefused. Without it this server takes no such calls, and the path is not found."""
        self._app = app
        self._verify = verify
        self._workers = workers
        self._pace = Pace(REFUSALS_PER_S, REFUSAL_BURST)  # by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._verify and scope["type"] == "http" and scope["path"] == PATH:
            network = network_of_client(scope)
            try:
                verified = await self._verified(self._verify, Headers(scope=scope), network)
            except TokenRefused as exc:
                await self._pace.wait(network)
                log.warning("A call to %s from %s was refused: %s", PATH, network, exc)
                message = "Only servers on the same database may send this."
                await JSONResponse(body(Invalid(message)), 401)(scope, receive, send)
                return
            except AppError as error:  # the secret cannot be read
                await refusal(error)(scope, receive, send)
                return
            scope[VERIFIED], scope[CALLER] = verified, verified.caller
        await self._app(scope, receive, send)

    async def _verified(self, verify: Callable[[str], VerifiedToken], headers: Headers, network: str) -> VerifiedToken:
        token = bearer_of(headers)
        if not token:
            raise TokenRefused("it has no token")
        if any(name in headers for name in OF_BROWSERS):
            raise TokenRefused("it comes from a browser")
        return await self._workers.run(partial(verify, token), user=network, family="server calls")
