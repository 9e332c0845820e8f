"""The pages of the web app, and the sign-in page."""

import gzip
import html
import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from memory_mcp.app import App
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.server import error_encoding, http_server, startup_message
from memory_mcp.server.fair_routes import pools_of
from memory_mcp.server.request_context import ip_of, network_of_client
from memory_mcp.server.rest.authentication import origin_of, person_finder, set_cookie
from memory_mcp.server.tcp_peers import is_of_other_account

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send "Origin: null" from our own forms
    "Cache-Control": "no-store",
}
WEB = Path(__file__).parents[1] / "web"
APP_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
NAMES = (
    "memories",
    "conversations",
    "graph",
    "stores",
    "portals",
    "import",
    "keys",
    "writes",
    "sessions",
    "people",
    "sync",
    "settings",
)
MAX_FORM_BYTES = 10_000
T = TypeVar("T")
FORM = """<form method="post" action="/sign-in{then}">
<p><label>Name <input name="name" autocomplete="username" required></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
<p><button>Sign in</button></p>
</form>
<details><summary>No password, or forgotten?</summary>
<p>On the computer of the server, <code>memory-mcp open</code> opens this page signed in,
<code>memory-mcp users link NAME</code> prints a link that signs you in once, and
<code>memory-mcp users password NAME</code> sets a new password. If the server is another person's, ask them for a link:
they make one on the page People.</p></details>"""


CONFIRM = """<form method="post" action="/sign-in">
<input type="hidden" name="token" value="{token}">
<p>Another page led here. <button>Sign in with this link</button></p>
</form>"""


class Assets(StaticFiles):
    """Scripts and styles. Their names do not change with their content, so browsers must revalidate them."""

    def file_response(
        self, full_path: "str | os.PathLike[str]", stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        requested = Headers(scope=scope)
        if response.status_code == 200 and "gzip" in requested.get("accept-encoding", "") and "range" not in requested:
            response = _compressed(response, str(full_path), stat_result)
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def _compressed(whole: Response, path: str, stat_result: os.stat_result) -> Response:
    """The same file in gzip. Its ETag is weak, because the bytes are others."""
    headers = {name: whole.headers[name] for name in ("content-type", "last-modified")}
    headers |= {"ETag": f"W/{whole.headers['etag']}", "Content-Encoding": "gzip"}
    return Response(_gzip(path, stat_result.st_mtime_ns), headers=headers)


@lru_cache(maxsize=32)  # more than there are files
def _gzip(path: str, _changed_ns: int) -> bytes:
    return gzip.compress(Path(path).read_bytes(), mtime=0)


def routes() -> list[BaseRoute]:
    return [
        Mount("/assets", Assets(directory=WEB / "app" / "assets")),
        Route("/sign-in", sign_in, methods=["GET", "POST"]),
        Route("/", front, methods=["GET"]),
        *(Route(f"/{name}", front, methods=["GET"]) for name in NAMES),
        *(Route(f"/{name}/{{rest:path}}", front, methods=["GET"]) for name in NAMES),
    ]


async def front(request: Request) -> HTMLResponse:
    """The web app, which chooses its page by the path. Signed-out visitors see the sign-in page."""
    app: App = request.app.state.app
    try:
        await _run(request, person_finder(request))
    except Unavailable:
        raise
    except AppError:
        requested = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        then = f"?next={quote(requested, safe='/')}" if requested != "/" else ""
        base = app.settings.public_url or str(request.base_url)
        return HTMLResponse(
            startup_message.page(app.settings, base, FORM.format(then=html.escape(then))), headers=HEADERS
        )
    return HTMLResponse((WEB / "app" / "index.html").read_text(encoding="utf-8"), headers=APP_HEADERS)


async def missing(request: Request, error: Exception) -> Response:
    """404: the web app's page for people, the usual error for programs."""
    first = request.url.path.split("/")[1]
    wants_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
    if not wants_page or first in ("api", "mcp", "assets"):
        return await http_server.refuse_plainly(request, error)
    shown = await front(request)
    shown.status_code = 404
    return shown


async def sign_in(request: Request) -> Response:
    """Sign in by the token of a link, or by the form. A browser's prefetch does not use up a link."""
    if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
        return HTMLResponse(headers=HEADERS)
    token = request.query_params.get("token")
    if request.method == "GET" and token is None:
        return _page(_form(request))
    if request.method == "GET" and token is not None and _comes_from_elsewhere(request):
        return _page(CONFIRM.format(token=html.escape(token)))
    try:
        cookie = await _cookie(request, token)
    except AppError as error:
        alert = f"<p role=alert>{html.escape(error.text_for_people)}</p>"
        return _page(alert + _form(request), error_encoding.wire_codes(error).http, error)
    response = RedirectResponse(_next(request), 303, HEADERS)
    set_cookie(request, response, cookie)
    return response


def _comes_from_elsewhere(request: Request) -> bool:
    """Whether a page of another site led here: it must not sign the visitor in without a confirmation."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _form(request: Request) -> str:
    """The form for name and password, which then leads to the requested page."""
    wanted = _next(request)
    return FORM.format(then=html.escape(f"?next={quote(wanted, safe='/')}") if wanted != "/" else "")


def _next(request: Request) -> str:
    """The page that the visitor requested before the sign-in, if it is one of ours; else the first one."""
    wanted = request.query_params.get("next", "/")
    return wanted if wanted.lstrip("/").partition("/")[0].partition("?")[0] in NAMES and wanted[:2] != "//" else "/"


async def _cookie(request: Request, token: str | None) -> str:
    sign_ins = request.app.state.app.access.sign_ins
    if token is not None and request.method == "GET":
        return await _cookie_by_link(request, token)
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413, f"A form brings at most {MAX_FORM_BYTES:,} bytes.")
    form = parse_qs(body.decode("utf-8", "replace"))
    token, name, password = (form.get(field, [""])[0] for field in ("token", "name", "password"))
    if token:
        return await _cookie_by_link(request, token)
    return str(
        await _run(
            request, partial(sign_ins.sign_in_by_password, name, password, ip_of(request.scope), origin_of(request))
        )
    )


async def _cookie_by_link(request: Request, token: str) -> str:
    app: App = request.app.state.app
    is_behind_proxy = app.settings.public_url or app.settings.forwarded_allow_ips

    def is_own_account() -> bool:
        return bool(is_behind_proxy) or not is_of_other_account(request.scope)

    by_link = app.access.sign_ins.sign_in_by_link
    return await _run(request, lambda: by_link(token, ip_of(request.scope), origin_of(request), is_own_account))


async def _run(request: Request, work: Callable[[], T]) -> T:
    """Run in the threads that compare passwords, of which each address has its share."""
    return await pools_of(request).hashing.run(work, user=network_of_client(request.scope), family="sign-in")


def _page(inner: str, status: int = 200, error: AppError | None = None) -> HTMLResponse:
    retry = {"Retry-After": str(error.data["retry_after"])} if error and "retry_after" in error.data else {}
    return HTMLResponse(startup_message.framed("Sign in", inner), status, HEADERS | retry)
