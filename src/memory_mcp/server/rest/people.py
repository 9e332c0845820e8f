"""The users of this server, for its owner: the same as `memory-mcp users`."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.errors import Forbidden
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals
from memory_mcp.server.rest.people_shapes import (
    NewPassword,
    NewPlan,
    NewUser,
    SignInLink,
    UserRemoved,
    UserShown,
    UsersShown,
)
from memory_mcp.server.rest.routes import is_owner, user_router
from memory_mcp.server.rest.tools import WEB_APP
from memory_mcp.services.access import REQUESTS_PER_MINUTE, AuditEvent, User
from memory_mcp.services.access.sign_ins import sign_in_url


async def owner(app: TheApp, person: ThePerson) -> Caller:
    """Runs before the request's fields are checked: other users get the same answer for every request."""
    if not is_owner(app, person.user):
        raise Forbidden("Only the owner of this server manages its users: the local user, signed in.")
    return person


TheOwner = Annotated[Caller, Depends(owner)]
UserName = Annotated[str, Path(max_length=64)]


@user_router.get("/users")
def list_users(app: TheApp, person: TheOwner) -> UsersShown:
    """Every user of this server. Only for its owner, the local user, and only signed in."""
    return UsersShown(users=_shown(app, app.access.users.all()), plans=REQUESTS_PER_MINUTE)


@user_router.post("/users", status_code=201, responses=refusals(409, 413, 422))
def add_user(body: NewUser, app: TheApp, person: TheOwner) -> UserShown:
    """Add a user, who has separate data. Only for the owner."""
    [shown] = _shown(app, [app.access.users.add(body.name, body.plan)])
    return shown


@user_router.post("/users/{user}/plan", responses=refusals(404, 413, 422))
def set_plan(user: UserName, body: NewPlan, app: TheApp, person: TheOwner) -> UserShown:
    """Change how many requests a minute a user's clients may make, where --rate-limits is on. Only for the owner."""
    changed = app.access.users.set_plan(user, body.plan)
    _record(app, person, "plan_set", {"name": changed.name, "plan": changed.plan})
    [shown] = _shown(app, [changed])
    return shown


@user_router.post("/users/{user}/password", status_code=204, responses=refusals(404, 413, 422))
def set_password(user: UserName, body: NewPassword, app: TheApp, person: TheOwner) -> None:
    """Set a user's password, and sign them out everywhere. Only for the owner."""
    chosen = app.access.users.get(user)
    app.access.sign_ins.set_password(chosen.id, body.password)
    if chosen.id != person.user:  # it is in the log of the user whose password it is
        _record(app, person, "password_set", {"name": chosen.name})


@user_router.post("/users/{user}/link", status_code=201, responses=refusals(404, 422))
def create_link(user: UserName, request: Request, app: TheApp, person: TheOwner) -> SignInLink:
    """Create a link that signs a user in once, within a day. Only this answer shows it. Only for the owner."""
    chosen = app.access.users.get(user)
    base = app.settings.public_url or str(request.base_url).rstrip("/")
    link = sign_in_url(base, app.access.sign_ins.create_link_token(chosen.id))
    _record(app, person, "link_created", {"name": chosen.name})
    return SignInLink(user=chosen.name, link=link)


@user_router.delete("/users/{user}", responses=refusals(404, 422))
def remove_user(
    user: UserName,
    app: TheApp,
    person: TheOwner,
    delete_data: Annotated[bool, Query(description="Delete all their data, for good.")] = False,
) -> UserRemoved:
    """Remove a user and all their keys. Their data stays unless it is to be deleted. Only for the owner."""
    removed = app.access.users.remove(user)
    if delete_data:
        app.access.delete_data(removed.id)
    return UserRemoved(name=removed.name, data_deleted=delete_data)


def _shown(app: App, users: Iterable[User]) -> list[UserShown]:
    signed_in, with_password = app.access.sign_ins.signed_in_users(), app.access.sign_ins.users_with_password()
    return [
        UserShown(
            name=user.name,
            plan=user.plan,
            requests_a_minute=REQUESTS_PER_MINUTE[user.plan],
            created_at=user.created_at,
            is_owner=user.id == LOCAL_USER,
            is_signed_in=user.id in signed_in,
            has_password=user.id in with_password,
        )
        for user in users
    ]


def _record(app: App, person: Caller, action: str, details: dict[str, str]) -> None:
    app.access.audit.record(person.user, AuditEvent(action, client=WEB_APP, ip=person.ip, details=details))
