"""The caller, the connection and the session of a request, on every transport, with and without a handshake."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.requests import Request

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller, parse_scopes
from memory_mcp.errors import Invalid
from memory_mcp.server import admission, sdk
from memory_mcp.server.admission import Permit
from memory_mcp.server.call_order import CallOrder
from memory_mcp.server.sdk import RequestContext
from memory_mcp.services.sessions import Connection, Session, Sessions, Transport
from memory_mcp.system.client_networks import network_of

CALLER = "memory_mcp.caller"  # the caller in the scope of an HTTP request
PERSON = "memory_mcp.person"  # the signed-in user in the scope of a REST request
VERIFIED = "memory_mcp.verified"  # the token of another server in the scope of a request that it forwards
CONNECTION = "memory_mcp.connection"  # the connection in the state of the SDK's connection
CLIENT_INFO = "memory_mcp.client_info"
ORDER = "memory_mcp.order"
SESSION_META = "memory-mcp/sessionId"
CLIENT_INFO_META = "io.modelcontextprotocol/clientInfo"
MAX_SESSION_ID_CHARS = 128
MAX_CLIENT_NAME_CHARS = 200


@dataclass(frozen=True)
class StreamClient:
    """The client of one pair of byte streams, such as stdin and stdout."""

    caller: Caller
    connection: Connection
    transport: Transport
    order: CallOrder = field(default_factory=CallOrder)
    permit: Permit | None = None  # of the HTTP request that all answers go to


def local_caller(app: App) -> Caller:
    """The caller of requests without a key: the local user, limited by --scopes and --families."""
    return Caller(LOCAL_USER, parse_scopes(app.settings.scopes), frozenset(app.families))


def caller(ctx: RequestContext) -> Caller:
    if isinstance(ctx.lifespan_context, StreamClient):
        return ctx.lifespan_context.caller
    return cast(Caller, cast(Request, ctx.request).scope[CALLER])


def use_permit_of_stream(ctx: RequestContext) -> None:
    """In a legacy SSE stream, the answer is no part of the request that has the call: the stream waits for it."""
    if isinstance(ctx.lifespan_context, StreamClient) and ctx.lifespan_context.permit:
        admission.CURRENT.set(ctx.lifespan_context.permit)


def ip_of(scope: Mapping[str, Any]) -> str | None:
    """The address of the client of an HTTP request."""
    return scope["client"][0] if scope.get("client") else None


def network_of_client(scope: Mapping[str, Any]) -> str:
    """The network whose share of memory and threads a request uses until its user is known."""
    return network_of(ip_of(scope))


def owner_of(scope: Mapping[str, Any]) -> str:
    """The user of an HTTP request or, before a sign-in, its network address: each has a share of memory and threads."""
    if CALLER in scope:
        return f"user {scope[CALLER].user}"
    return f"user {scope[PERSON].id}" if PERSON in scope else f"address {network_of_client(scope)}"


def transport(ctx: RequestContext) -> Transport:
    return ctx.lifespan_context.transport if isinstance(ctx.lifespan_context, StreamClient) else "streamable-http"


def session(ctx: RequestContext, sessions: Sessions) -> Session:
    """The session of a call: chosen on the connection, named on the request, announced, or the connection's own."""
    connection = connection_of(ctx, sessions)
    named = (ctx.meta or {}).get(SESSION_META)
    announced = announced_session(client_info(ctx)) if sdk.is_modern(ctx) else connection.announced_session
    for where, found in ((f"_meta.{SESSION_META}", named), ("clientInfo.extra.sessionId", announced)):
        if found is not None and not (isinstance(found, str) and 0 < len(found) <= MAX_SESSION_ID_CHARS):
            raise Invalid(f"{where} must be a text of 1 to {MAX_SESSION_ID_CHARS} characters.", field=where)
    if connection.ends_when_idle:  # without a connection, the request's own choice comes first
        session_id = named or announced or connection.chosen_session or connection.own_session
    else:
        session_id = connection.chosen_session or named or announced or connection.own_session
    client = client_name(client_info(ctx)) if sdk.is_modern(ctx) else connection.client
    return Session(unicodedata.normalize("NFC", str(session_id)), connection, client)


def order(ctx: RequestContext) -> CallOrder:
    """The order of the connection's calls. Without a connection, calls are independent."""
    if isinstance(ctx.lifespan_context, StreamClient):
        return ctx.lifespan_context.order
    if sdk.is_modern(ctx):
        return CallOrder()
    return cast(CallOrder, sdk.connection(ctx).state.setdefault(ORDER, CallOrder()))


def client_name(client_info: Any) -> str:
    name = client_info.get("name") if isinstance(client_info, Mapping) else None
    return unicodedata.normalize("NFC", name[:MAX_CLIENT_NAME_CHARS]) if isinstance(name, str) else ""


def announced_session(client_info: Any) -> Any:
    """clientInfo.extra.sessionId, of any type."""
    extra = client_info.get("extra") if isinstance(client_info, Mapping) else None
    return extra.get("sessionId") if isinstance(extra, Mapping) else None


def connection_of(ctx: RequestContext, sessions: Sessions) -> Connection:
    """Raises KeyError before the handshake."""
    if isinstance(ctx.lifespan_context, StreamClient):
        return ctx.lifespan_context.connection
    state = sdk.connection(ctx).state  # without a handshake, it belongs to this request only
    if sdk.is_modern(ctx) and CONNECTION not in state:
        state[CONNECTION] = sessions.connection_without_handshake(caller(ctx), client_name(client_info(ctx)))
    return cast(Connection, state[CONNECTION])


def client_info(ctx: RequestContext) -> Mapping[str, Any]:
    """The client's description of itself: on each request, or in the handshake."""
    on_request, in_handshake = (ctx.meta or {}).get(CLIENT_INFO_META), sdk.connection(ctx).state.get(CLIENT_INFO)
    info = on_request if sdk.is_modern(ctx) else in_handshake
    return info if isinstance(info, Mapping) else {}
