"""Keys at the HTTP door: who a request comes from, before MCP is reached."""

from collections.abc import Iterable

from anyio import CapacityLimiter, to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.access import Key, Keys, Refused
from memory_mcp.caller import Caller
from memory_mcp.doors.asking import CALLER
from memory_mcp.errors import AppError


class BearerGuard:
    """ASGI middleware for every path under `protects`. 401 with a word that says what is wrong with the key."""

    def __init__(self, app: ASGIApp, keys: Keys, families: Iterable[str], protects: str, anyone: Caller | None) -> None:
        """`anyone` is who everybody is taken for where no key is asked for."""
        self._app = app
        self._keys = keys
        self._families = frozenset(families)
        self._protects = protects
        self._anyone = anyone
        self._checking = CapacityLimiter(8)  # of its own, so that a busy memory does not keep anyone at the door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(self._protects):
            try:
                scope[CALLER] = await self._caller(scope)
            except AppError as error:
                await _refusal(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        if self._anyone is not None:
            return self._anyone
        bearer = _bearer(Headers(scope=scope))
        key = await to_thread.run_sync(self._keys.check, bearer, limiter=self._checking)
        # The SDK ties each handshake session to this, so that nobody rides on another key's session.
        scope["user"] = AuthenticatedUser(AccessToken(token=key.id, client_id=key.id, scopes=sorted(key.scopes)))
        scope["auth"] = AuthCredentials(sorted(key.scopes))
        return self._of(key)

    def _of(self, key: Key) -> Caller:
        families = self._families & key.families if key.families else self._families
        return Caller(key.user, key.scopes, families, key.id, key.namespace)


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _refusal(error: AppError) -> JSONResponse:
    body = {"error": error.error, "message": error.message, "data": error.data}
    if not isinstance(error, Refused):
        return JSONResponse(body, 503)
    why = "" if error.error == "missing_bearer" else f', error="invalid_token", error_description="{error.error}"'
    return JSONResponse(body, 401, {"WWW-Authenticate": f'Bearer realm="memory-mcp"{why}'})
