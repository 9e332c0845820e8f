"""Host and Origin, checked on every route: a web page must not reach a memory through a name it made up, nor with the
cookie of somebody who is signed in."""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class HostGuard:
    """ASGI middleware. 421 for a Host that is not ours, 403 for an Origin that is not."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], public_url: str | None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._public = _origin(public_url) if public_url else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope, Headers(scope=scope))):
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if host_name(headers.get("host", "")) not in self._hosts:
            return _refused(421, "This server is not known by that Host. Add it with --allowed-hosts.")
        if not all(map(self.is_ours, headers.getlist("origin"))):
            return _refused(403, "Web pages of that Origin may not use this server. Add its host with --allowed-hosts.")
        goes_by_cookie = not scope["path"].startswith("/mcp")
        if goes_by_cookie and scope["method"] not in SAFE_METHODS and not self._is_same_origin(scope, headers):
            return _refused(403, "This page belongs to another origin, which may not change anything here.")
        return None

    def _is_same_origin(self, scope: Scope, headers: Headers) -> bool:
        """Browsers say where a request comes from; what says nothing is no browser, and carries nobody's cookie."""
        own = {_origin(f"{scope['scheme']}://{headers['host']}"), self._public}
        site = headers.get("sec-fetch-site", "same-origin")
        return site in ("same-origin", "none") and all(_origin(origin) in own for origin in headers.getlist("origin"))

    def is_ours(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and host_name(parts.netloc) in self._hosts


def _origin(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port, the usual port also where it is not named."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname or "", port)


def host_name(host: str) -> str:
    """Without the port: 'Localhost:8765' and '[::1]:8765' give 'localhost' and '[::1]'."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": "invalid", "message": message, "data": {}}, status)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
