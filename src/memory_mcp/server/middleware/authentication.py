"""Finds the caller of an HTTP request by its key, before MCP is reached."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError
from memory_mcp.families.registry import CONFINABLE
from memory_mcp.server import request_connection
from memory_mcp.server.error_encoding import refusal
from memory_mcp.server.middleware.pace import Pace
from memory_mcp.server.request_context import CALLER, ip_of, network_of_client
from memory_mcp.server.thread_pools import Pools
from memory_mcp.services.access import REQUESTS_PER_MINUTE, Key, Keys
from memory_mcp.system.client_networks import network_of

REFUSALS_PER_S = 20.0  # that one address gets
REFUSAL_BURST = 40


class AuthenticationMiddleware:
    """ASGI middleware for every path under `protects`. 401 with a code that says what is wrong with the key."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        families: Iterable[str],
        protects: str,
        anyone: Caller | None,
        limited: bool,
        pools: Pools,
    ) -> None:
        """`anyone` is the caller of every request where no key is needed. `limited`: users' plans count."""
        self._app = app
        self._keys = keys
        self._families = frozenset(families)
        self._protects = protects
        self._anyone = anyone
        self._limited = limited
        self._pools = pools
        self._pace = Pace(REFUSALS_PER_S, REFUSAL_BURST)  # by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(self._protects):
            try:
                caller = scope[CALLER] = await self._caller(scope)
                request_connection.confirm(scope, caller.user)
            except AppError as error:
                await self._pace.wait(network_of_client(scope))
                await refusal(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        ip = ip_of(scope)
        if self._anyone is not None:
            return replace(self._anyone, ip=ip)
        bearer = bearer_of(Headers(scope=scope))
        key = self._keys.cached(bearer, ip) or await self._check(bearer, ip)
        # The SDK ties each handshake session to this, so that no client uses the session of another key.
        scope["user"] = AuthenticatedUser(AccessToken(token=key.id, client_id=key.id, scopes=sorted(key.scopes)))
        scope["auth"] = AuthCredentials(sorted(key.scopes))
        return self._of(key, ip)

    async def _check(self, bearer: str | None, ip: str | None) -> Key:
        """A key that was verified before has its own share, in other threads: wrong keys from the same address do not
        delay it."""
        check, known = partial(self._keys.check, bearer, ip), self._keys.verified_id(bearer)
        if known:
            return await self._pools.access.run(check, user=f"key {known}", family="keys")
        return await self._pools.hashing.run(check, user=network_of(ip), family="keys")

    def _of(self, key: Key, ip: str | None) -> Caller:
        families = self._families & key.families if key.families else self._families
        allowed = REQUESTS_PER_MINUTE[key.plan] if self._limited else None
        if key.is_confined:
            families = families.intersection(CONFINABLE)
        return Caller(
            key.user,
            key.scopes,
            families,
            key_id=key.id,
            key_name=key.name,
            namespace=key.namespace,
            requests_a_minute=allowed,
            ip=ip,
            is_confined=key.is_confined,
        )


def bearer_of(headers: Headers) -> str | None:
    """The key of a request, if it has one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
