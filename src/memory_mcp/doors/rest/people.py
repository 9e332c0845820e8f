"""Who is signed in, by the cookie of a request."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.security import APIKeyCookie

from memory_mcp.access import NotSignedIn, User
from memory_mcp.access.sign_ins import COOKIE_LASTS
from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.doors.asking import ip_of, local_caller

COOKIE = "memory_mcp_sign_in"

_cookie = APIKeyCookie(name=COOKIE, scheme_name="signed-in", auto_error=False)


def app_of(request: Request) -> App:
    found: App = request.app.state.app
    return found


def _ip(request: Request) -> str | None:
    return ip_of(request.scope)


TheApp = Annotated[App, Depends(app_of)]
Ip = Annotated[str | None, Depends(_ip)]
Cookie = Annotated[str | None, Depends(_cookie)]


def person(app: TheApp, cookie: Cookie) -> User:
    """Raises NotSignedIn."""
    if app.settings.auth == "none":
        return app.access.users.get(LOCAL_USER)
    if cookie is None:
        raise NotSignedIn(
            "Sign in first: open the link that the server printed at its first start, or one that "
            "`memory-mcp users link NAME` prints."
        )
    return app.access.sign_ins.who(cookie)


Person = Annotated[User, Depends(person)]


def caller(app: TheApp, user: Person, ip: Ip) -> Caller:
    """A person may do everything with their own memory; where nobody signs in, what a client without a key may."""
    if app.settings.auth == "none":
        return replace(local_caller(app), ip=ip, is_person=True)
    return Caller(user.id, ALL_SCOPES, frozenset(app.families), ip=ip, is_person=True)


ThePerson = Annotated[Caller, Depends(caller)]


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    public = app_of(request).settings.public_url or ""
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(COOKIE_LASTS.total_seconds()),
        httponly=True,
        samesite="lax",  # not strict: a link in a letter should find its reader signed in
        secure=request.url.scheme == "https" or public.startswith("https:"),
    )
