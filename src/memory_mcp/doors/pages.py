"""The pages a person sees before the web app: how to connect, and signing in."""

import html
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memory_mcp.app import App
from memory_mcp.doors import problems, welcome
from memory_mcp.doors.asking import ip_of
from memory_mcp.doors.rest.people import set_cookie
from memory_mcp.errors import AppError

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
LONGEST_FORM = 10_000  # bytes
FORM = """<form method="post" action="/sign-in">
<p><label>Name <input name="name" autocomplete="username" required></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
<p><button>Sign in</button></p>
</form>
<p>Without a password, <code>memory-mcp users link</code> prints a link that signs you in.</p>"""


CONFIRM = """<form method="post" action="/sign-in">
<input type="hidden" name="token" value="{token}">
<p>Another page led here. <button>Sign in with this link</button></p>
</form>"""


async def front(request: Request) -> HTMLResponse:
    app: App = request.app.state.app
    base = app.settings.public_url or str(request.base_url)
    return HTMLResponse(welcome.page(app.settings, base), headers=HEADERS)


async def sign_in(request: Request) -> Response:
    """By the token of a link, or by the form. A browser that only looks ahead uses no link up."""
    if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
        return HTMLResponse(headers=HEADERS)
    token = request.query_params.get("token")
    if request.method == "GET" and token is None:
        return _page(FORM)
    if request.method == "GET" and token is not None and _comes_from_elsewhere(request):
        return _page(CONFIRM.format(token=html.escape(token)))
    try:
        cookie = await _cookie(request, token)
    except AppError as error:
        alert = f"<p role=alert>{html.escape(error.message)}</p>"
        return _page(alert + FORM, problems.status_of(error), error)
    response = RedirectResponse("/", 303, HEADERS)
    set_cookie(request, response, cookie)
    return response


def _comes_from_elsewhere(request: Request) -> bool:
    """Whether another page led here: it must not sign anybody in, least of all as somebody else."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


async def _cookie(request: Request, token: str | None) -> str:
    sign_ins = request.app.state.app.access.sign_ins
    if request.method == "GET":
        return str(await to_thread.run_sync(sign_ins.by_link, token, ip_of(request.scope)))
    body = b""
    async for chunk in request.stream():
        body += chunk[:LONGEST_FORM]
        if len(body) > LONGEST_FORM:
            break
    form = parse_qs(body.decode("utf-8", "replace"))
    token, name, password = (form.get(field, [""])[0] for field in ("token", "name", "password"))
    if token:
        return str(await to_thread.run_sync(sign_ins.by_link, token, ip_of(request.scope)))
    return str(await to_thread.run_sync(sign_ins.by_password, name, password, ip_of(request.scope)))


def _page(inner: str, status: int = 200, error: AppError | None = None) -> HTMLResponse:
    retry = {"Retry-After": str(error.data["retry_after"])} if error and "retry_after" in error.data else {}
    return HTMLResponse(welcome.framed("Sign in", inner), status, HEADERS | retry)
