"""The routes of access, sessions and lists, each a few lines over an operation."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Scope, parse_scopes
from memory_mcp.families.registry import confinable
from memory_mcp.server.fair_routes import SignInRoute
from memory_mcp.server.rest.authentication import (
    Cookie,
    Ip,
    Person,
    PersonRoute,
    TheApp,
    ThePerson,
    cookie_name,
    is_secure,
    origin_of,
    scopes_of_people,
    set_cookie,
)
from memory_mcp.server.rest.common import refusals, unstored
from memory_mcp.server.rest.shapes import (
    AnalyticsShown,
    AnalyticsTotals,
    AuditEntry,
    AuditPage,
    CallsAt,
    CoverageAt,
    Disconnected,
    EmbedStatsShown,
    GraphEdge,
    GraphNode,
    KeyRequest,
    KeyShown,
    KeysShown,
    Me,
    Named,
    NewKey,
    NotesGraph,
    PortalShown,
    PortalsShown,
    Reindexed,
    Revoked,
    SessionShown,
    SessionsShown,
    SignInRequest,
    StoreShown,
    StoresShown,
)
from memory_mcp.services.access import User
from memory_mcp.services.access.keys import lifetime
from memory_mcp.services.access.usage import by_day

MAX_ID = 2**63 - 1  # of SQLite


user_router = APIRouter(
    prefix="/api", route_class=PersonRoute, dependencies=[Depends(unstored)], responses=refusals(401, 403, 421, 503)
)
"""The routes for signed-in users."""

public_router = APIRouter(prefix="/api", route_class=SignInRoute, responses=refusals(403, 421, 503))

ROUTERS = (user_router, public_router)


# Signing in


@public_router.post("/sign-in", responses=refusals(400, 401, 413, 422, 429))
def sign_in(body: SignInRequest, request: Request, response: Response, app: TheApp, ip: Ip) -> Me:
    """Sign in by name and password. The answer sets a cookie."""
    origin = origin_of(request)
    cookie = app.access.sign_ins.sign_in_by_password(body.name, body.password, ip, origin)
    set_cookie(request, response, cookie)
    return _me(app, app.access.sign_ins.user_of(cookie, origin))


@user_router.post("/sign-out", status_code=204)
def sign_out(request: Request, response: Response, app: TheApp, person: Person, cookie: Cookie) -> None:
    """Sign out: the cookie is no longer valid."""
    if cookie:
        app.access.sign_ins.sign_out(cookie, origin_of(request))
    response.delete_cookie(cookie_name(request), secure=is_secure(request), httponly=True, samesite="lax")


@user_router.get("/me")
def me(app: TheApp, person: Person) -> Me:
    """The signed-in user."""
    return _me(app, person)


def _me(app: App, user: User) -> Me:
    owns = is_owner(app, user.id)
    may = {"is_owner": owns, "may_back_up": owns, "scopes": sorted(scopes_of_people(app))}
    return Me.model_validate(vars(user) | may)


def is_owner(app: App, user: str) -> bool:
    """Only the local user, who owns the data directory, and not with --auth none: then any program on the machine would
    get the data of all users."""
    return user == LOCAL_USER and app.settings.auth != "none"


# Keys


@user_router.get("/mcp/keys")
def list_keys(app: TheApp, person: Person) -> KeysShown:
    """Your keys, also revoked and expired ones, without their secrets."""
    return KeysShown(keys=[KeyShown.of(key) for key in app.access.keys.of(person.id)])


@user_router.post("/mcp/keys", status_code=201, responses=refusals(400, 413, 422))
def create_key(body: KeyRequest, app: TheApp, person: ThePerson) -> NewKey:
    """Create a key. Only this answer shows it."""
    scopes = parse_scopes(body.scopes)
    for scope in scopes:
        person.require(scope)
    issued = app.access.keys.create(
        name=body.name,
        user=person.user,
        ip=person.ip,
        scopes=scopes,
        families=confinable(body.families) if body.confined else body.families,
        namespace=body.namespace,
        is_confined=body.confined,
        expires_at=lifetime(body.expires),
    )
    return NewKey.made(issued)


@user_router.delete("/mcp/keys/{key_id}", responses=refusals(404, 422))
def revoke_key(key_id: Annotated[str, Path(max_length=100)], app: TheApp, person: Person, ip: Ip) -> Revoked:
    """Revoke a key for good: within a second it is no longer accepted, and its open streams end."""
    app.access.keys.revoke(key_id, person.id, ip)
    return Revoked(id=key_id)


# Sessions


@user_router.get("/mcp/sessions")
def list_sessions(app: TheApp, person: Person) -> SessionsShown:
    """Your clients that are connected, over any transport and to any server on the same data."""
    names = {key.id: key.name for key in app.access.keys.of(person.id)}
    return SessionsShown(sessions=[SessionShown.of(client, names) for client in app.clients.of(person.id)])


@user_router.delete("/mcp/sessions/{session_id}", responses=refusals(404, 422))
def disconnect(session_id: Annotated[str, Path(max_length=100)], app: TheApp, person: Person) -> Disconnected:
    """Disconnect a client. It may connect again: revoke its key to prevent that."""
    app.clients.disconnect(person.id, session_id)
    return Disconnected(id=session_id)


# Memories


@user_router.get("/mcp/memory/embed-stats")
def embed_stats(app: TheApp, person: ThePerson) -> EmbedStatsShown:
    """How many notes have a vector, and which embedder makes them."""
    return EmbedStatsShown.model_validate(vars(app.notes.reader.embed_stats(person)))


@user_router.post("/mcp/memory/reindex", status_code=202)
def reindex(app: TheApp, person: ThePerson) -> Reindexed:
    """Compute the vectors of all your notes again, in the background."""
    person.require(Scope.WRITE)
    return Reindexed(queued=app.notes.writer.reindex(person))


@user_router.get("/mcp/memory/analytics", responses=refusals(422))
def analytics(
    app: TheApp,
    person: ThePerson,
    days: Annotated[int, Query(ge=1, le=400, description="How far back.")] = 30,
    by: Annotated[Literal["hour", "day"], Query(description="The length of a step.")] = "hour",
) -> AnalyticsShown:
    """Counts of notes and calls, now and over time."""
    notes = app.notes.reader.totals(person)
    history = app.analytics.history(person.user, days)
    if by == "day":
        history = by_day(history)
    return AnalyticsShown(
        totals=AnalyticsTotals(
            memories=notes.unarchived,
            namespaces=notes.namespaces,
            embedded=notes.embedded,
            unembedded=notes.unarchived - notes.embedded,
        ),
        top_tags=[Named.model_validate(vars(tag)) for tag in notes.top_tags],
        top_clients=[Named.model_validate(vars(client)) for client in notes.top_clients],
        coverage=[
            CoverageAt(hour=at.hour, total=at.notes, embedded=at.embedded)
            for at in history
            if at.notes is not None and at.embedded is not None
        ],
        calls=[CallsAt(hour=at.hour, calls=at.calls, errors=at.errors) for at in history],
    )


@user_router.get("/notes/graph", responses=refusals(404, 422))
def notes_graph(
    app: TheApp,
    person: ThePerson,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
    around: Annotated[str | None, Query(description="The id of a note.", max_length=64)] = None,
    depth: Annotated[int, Query(description="How many links away from it.", ge=1, le=3)] = 1,
) -> NotesGraph:
    """The best connected notes, or those around one, and the links among them."""
    found = app.notes.reader.picture(person, limit, around, depth)
    return NotesGraph(
        nodes=[GraphNode.model_validate(vars(node)) for node in found.nodes],
        edges=[GraphEdge.model_validate(vars(edge)) for edge in found.edges],
        total=found.total,
    )


@user_router.get("/stores")
def list_stores(app: TheApp, person: ThePerson) -> StoresShown:
    """Your stores, by name."""
    return StoresShown(stores=[StoreShown(name=store.name, is_ours=store.is_ours) for store in app.stores.all(person)])


@user_router.get("/portals")
def list_portals(app: TheApp, person: ThePerson) -> PortalsShown:
    """Your portals and their sizes, if these are known without opening the portals."""
    return PortalsShown(portals=[PortalShown.of(portal) for portal in app.portal_summaries(person)])


# The audit log


@user_router.get("/mcp/audit", responses=refusals(422))
def audit(
    app: TheApp,
    person: Person,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="Entries older than this one.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> AuditPage:
    """Which keys were used and what was deleted, in your memory."""
    entries = app.access.audit.of(person.id, before, limit)
    following = entries[-1].id if len(entries) == limit else None
    return AuditPage(entries=[AuditEntry.of(entry) for entry in entries], next=following)
