"""Host and Origin, checked on every route: a web page must not reach a memory through a name it made up, nor with the
cookie of a user who is signed in."""

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.errors import Invalid
from memory_mcp.server.error_encoding import body
from memory_mcp.services import server_calls

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
USUAL_PORTS = {"http": 80, "https": 443}
MAX_PORT = 65535
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class OriginMiddleware:
    """ASGI middleware. 421 for a Host that is not ours, 403 for an Origin that is not."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], public_url: str | None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._public = parse_origin(public_url) if public_url else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope, Headers(scope=scope))):
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if scope["path"] == server_calls.PATH:
            return None  # a signed token says for which server the request is, and browsers are refused there
        if host_name(headers.get("host", "")) not in self._hosts:
            return _refused(421, "This server is not known by that Host. Add it with --allowed-hosts.")
        if not all(map(self.is_ours, headers.getlist("origin"))):
            return _refused(403, "Web pages of that Origin may not use this server. Add its host with --allowed-hosts.")
        if self._is_for_own_pages(scope) and not self._is_same_origin(scope, headers):
            return _refused(403, "This page belongs to another origin, which may not do this here.")
        return None

    @staticmethod
    def _is_for_own_pages(scope: Scope) -> bool:
        """Whether only pages of this server may send the request: changes made with a cookie, and /metrics, which needs
        no key on this machine."""
        goes_by_cookie = not scope["path"].startswith("/mcp")
        return (goes_by_cookie and scope["method"] not in SAFE_METHODS) or scope["path"] == "/metrics"

    def _is_same_origin(self, scope: Scope, headers: Headers) -> bool:
        """Browsers send the origin of a request; a client that does not is no browser, and has no cookie."""
        own = {parse_origin(f"{scope['scheme']}://{headers['host']}"), self._public}
        site = headers.get("sec-fetch-site", "same-origin")
        origins = [parse_origin(origin) for origin in headers.getlist("origin")]
        return site in ("same-origin", "none") and all(origin in own and origin for origin in origins)

    def is_ours(self, origin: str) -> bool:
        parsed = parse_origin(origin)
        return parsed is not None and parsed.host in self._hosts


class RequestOrigin(NamedTuple):
    scheme: str
    host: str  # in lower case; an IPv6 address in brackets
    port: int


def parse_origin(text: str) -> RequestOrigin | None:
    """Scheme, host and port, or the scheme's default port. None for anything a browser does not send: a path, a name
    before an @, an invalid port."""
    found = re.fullmatch(r"(https?)://(.+)", text, re.IGNORECASE)
    host = _parse_host(found[2]) if found else None
    if found is None or host is None:
        return None
    scheme = found[1].lower()
    return RequestOrigin(scheme, host[0], host[1] or USUAL_PORTS[scheme])


def _parse_host(text: str) -> tuple[str, int | None] | None:
    found = re.fullmatch(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?", text)
    if found is None or (found[2] and not 0 < int(found[2]) <= MAX_PORT):
        return None
    return found[1].lower(), int(found[2]) if found[2] else None


def host_name(host: str) -> str:
    """Without the port: 'Localhost:8765' and '[::1]:8765' give 'localhost' and '[::1]'. Empty for an invalid host."""
    parsed = _parse_host(host)
    return parsed[0] if parsed else ""


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse(body(Invalid(message)), status)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
