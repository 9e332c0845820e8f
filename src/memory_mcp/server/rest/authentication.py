"""Finds the signed-in user by the cookie of a request."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.security import APIKeyCookie

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller, Scope
from memory_mcp.families.family import Tool
from memory_mcp.server import request_connection
from memory_mcp.server.fair_routes import REST, FairRoute, pools_of
from memory_mcp.server.request_context import PERSON, ip_of, local_caller, network_of_client
from memory_mcp.server.thread_pools import Workers
from memory_mcp.services.access import NotSignedIn, User
from memory_mcp.services.access.sign_ins import COOKIE_LIFETIME

COOKIE = "memory_mcp_sign_in"
SECURE_COOKIE = f"__Host-{COOKIE}"  # browsers take it from this host over https only

_documented = APIKeyCookie(
    name=COOKIE, scheme_name="signed-in", description=f"Over https it is called {SECURE_COOKIE}.", auto_error=False
)


def app_of(request: Request) -> App:
    found: App = request.app.state.app
    return found


async def _app(request: Request) -> App:
    return app_of(request)


def cookie_name(request: Request) -> str:
    return SECURE_COOKIE if is_secure(request) else COOKIE


def is_secure(request: Request) -> bool:
    return request.url.scheme == "https" or (app_of(request).settings.public_url or "").startswith("https:")


def origin_of(request: Request) -> str:
    """The host and port a cookie is made for, as the browser names them."""
    return request.headers.get("host", "").lower()


async def _cookie(request: Request, _: Annotated[str | None, Depends(_documented)]) -> str | None:
    return request.cookies.get(cookie_name(request))


async def _ip(request: Request) -> str | None:
    return ip_of(request.scope)


TheApp = Annotated[App, Depends(_app)]
Ip = Annotated[str | None, Depends(_ip)]
Cookie = Annotated[str | None, Depends(_cookie)]


def find_person(app: App, cookie: str | None, origin: str) -> User:
    """Raises NotSignedIn."""
    if app.settings.auth == "none":
        return app.access.users.get(LOCAL_USER)
    if cookie is None:
        raise NotSignedIn(
            "Sign in first: open the link that the server printed at its first start, or one that "
            "`memory-mcp users link NAME` prints."
        )
    return app.access.sign_ins.user_of(cookie, origin)


def person_finder(request: Request) -> Callable[[], User]:
    """A function that finds the signed-in user, to be run in a thread. It raises NotSignedIn."""
    return partial(find_person, app_of(request), request.cookies.get(cookie_name(request)), origin_of(request))


class PersonRoute(FairRoute):
    """For requests of signed-in users."""

    async def user_of(self, request: Request) -> str:
        find = person_finder(request)
        user = await pools_of(request).access.run(find, user=network_of_client(request.scope), family=REST)
        request.scope[PERSON] = user
        request_connection.confirm(request.scope, user.id)
        return user.id

    def workers_of(self, request: Request) -> tuple[Workers, str]:
        tool = tool_named(app_of(request), request.path_params.get("name", ""))
        if tool is None:
            return super().workers_of(request)
        return pools_of(request).pool(reads=tool.reads_only), tool.family


def tool_named(app: App, name: str) -> Tool | None:
    return next((family.tools[name] for family in app.families.values() if name in family.tools), None)


async def _person(request: Request) -> User:
    found: User = request.scope[PERSON]
    return found


Person = Annotated[User, Depends(_person)]


def scopes_of_people(app: App) -> frozenset[Scope]:
    """All scopes for signed-in users; with --auth none, the scopes of a client without a key."""
    return local_caller(app).scopes if app.settings.auth == "none" else ALL_SCOPES


async def caller(app: TheApp, user: Person, ip: Ip) -> Caller:
    if app.settings.auth == "none":
        return replace(local_caller(app), ip=ip, is_person=True, source="ui")
    return Caller(user.id, scopes_of_people(app), frozenset(app.families), ip=ip, is_person=True, source="ui")


ThePerson = Annotated[Caller, Depends(caller)]


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    response.set_cookie(
        cookie_name(request),
        cookie,
        max_age=int(COOKIE_LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",  # not strict: a link in an e-mail should open signed in
        secure=is_secure(request),
    )
