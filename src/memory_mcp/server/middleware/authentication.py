"""Keys at the HTTP door: who a request comes from, before MCP is reached."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.access import REQUESTS_A_MINUTE, Key, KeyRefused, Keys
from memory_mcp.caller import Caller
from memory_mcp.errors import AppError, Forbidden
from memory_mcp.families.registry import CONFINABLE
from memory_mcp.server import connections
from memory_mcp.server.middleware.pace import RefusalPace
from memory_mcp.server.request_context import CALLER, ip_of
from memory_mcp.server.thread_pools import Workers


class AuthenticationMiddleware:
    """ASGI middleware for every path under `protects`. 401 with a word that says what is wrong with the key."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        families: Iterable[str],
        protects: str,
        anyone: Caller | None,
        limited: bool,
        workers: Workers,
    ) -> None:
        """`anyone` is who everybody is taken for where no key is asked for. `limited`: users' plans count."""
        self._app = app
        self._keys = keys
        self._families = frozenset(families)
        self._protects = protects
        self._anyone = anyone
        self._limited = limited
        self._workers = workers
        self._pace = RefusalPace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(self._protects):
            try:
                caller = scope[CALLER] = await self._caller(scope)
                connections.confirm(scope, caller.user)
            except AppError as error:
                await self._pace.wait(ip_of(scope) or "")
                await refusal(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        ip = ip_of(scope)
        if self._anyone is not None:
            return replace(self._anyone, ip=ip)
        bearer = bearer_of(Headers(scope=scope))
        # A key that was right before has a share of its own: wrong keys from the same address do not keep it waiting.
        sharing = f"key {known}" if (known := self._keys.verified_id(bearer)) else ip or ""
        key = await self._workers.run(partial(self._keys.check, bearer, ip), user=sharing, family="keys")
        # The SDK ties each handshake session to this, so that nobody rides on another key's session.
        scope["user"] = AuthenticatedUser(AccessToken(token=key.id, client_id=key.id, scopes=sorted(key.scopes)))
        scope["auth"] = AuthCredentials(sorted(key.scopes))
        return self._of(key, ip)

    def _of(self, key: Key, ip: str | None) -> Caller:
        families = self._families & key.families if key.families else self._families
        allowed = REQUESTS_A_MINUTE[key.plan] if self._limited else None
        if key.is_confined:
            families = families.intersection(CONFINABLE)
        return Caller(key.user, key.scopes, families, key.id, key.namespace, allowed, ip, is_confined=key.is_confined)


def bearer_of(headers: Headers) -> str | None:
    """The key a request presents, if it does."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def refusal(error: AppError) -> JSONResponse:
    """401 for a key that opens nothing; 503 if nobody can tell."""
    body = {"error": error.error, "message": error.public_message, "data": error.data}
    if not isinstance(error, KeyRefused):
        retry = {"Retry-After": str(error.data["retry_after"])} if "retry_after" in error.data else {}
        return JSONResponse(body, 403 if isinstance(error, Forbidden) else 503, retry)
    why = "" if error.error == "missing_bearer" else f', error="invalid_token", error_description="{error.error}"'
    return JSONResponse(body, 401, {"WWW-Authenticate": f'Bearer realm="memory-mcp"{why}'})
