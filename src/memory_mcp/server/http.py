"""The HTTP server: Streamable HTTP at /mcp, legacy SSE at /mcp/sse, REST, metrics, health and pages, on one port."""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio
from fastapi import FastAPI
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import new_id
from memory_mcp.errors import Invalid
from memory_mcp.server import (
    admission,
    housekeeping,
    http_server,
    pages,
    request_connection,
    rest,
    results,
    sdk,
    shutdown,
    startup_message,
)
from memory_mcp.server.connected_clients import disconnect_refused
from memory_mcp.server.disconnects import DISCONNECT, Disconnect
from memory_mcp.server.import_jobs import ImportJobs
from memory_mcp.server.metrics import Metrics
from memory_mcp.server.middleware.admission import AdmissionMiddleware
from memory_mcp.server.middleware.authentication import AuthenticationMiddleware
from memory_mcp.server.middleware.body_limit import BodyLimitMiddleware
from memory_mcp.server.middleware.error_format import ErrorFormatMiddleware
from memory_mcp.server.middleware.origin import LOOPBACK, OriginMiddleware, is_loopback
from memory_mcp.server.middleware.pace import Pace
from memory_mcp.server.middleware.rate_limit import RateLimitMiddleware
from memory_mcp.server.middleware.request_id import RequestIdMiddleware
from memory_mcp.server.middleware.server_calls import ServerCallMiddleware
from memory_mcp.server.middleware.shutdown import ShutdownMiddleware
from memory_mcp.server.open_sessions import OpenSessions
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.request_context import CALLER, StreamClient, local_caller
from memory_mcp.server.sdk import WriteStream
from memory_mcp.server.shared.hello import Hello
from memory_mcp.server.shared.listener import RelayListener, claim_socket
from memory_mcp.server.unanswered_requests import UnansweredRequests
from memory_mcp.services import server_calls
from memory_mcp.services.sessions import Connection

if TYPE_CHECKING:
    from memory_mcp.server.server_calls import ServerCalls

log = logging.getLogger(__name__)

KEY_CHECK_INTERVAL_S = 0.5  # between two checks of the keys of open streams
HANDSHAKE_BURST = 40  # handshakes of one user that are not delayed at once


def run(app: App) -> None:
    """Serve until a signal stops the server. Raises Invalid for an address that needs a key first."""
    _refuse_unprotected_address(app)
    settings = app.settings
    listening = _listen(app)
    port = listening.getsockname()[1]
    new_key = _first_key(app)
    app.servers.kind = "http"
    app.clients.serve_at(settings.public_url or f"http://{settings.url_host}:{port}")
    sys.stdout.write(startup_message.text(settings, port, new_key, _first_sign_in(app)))
    sys.stdout.flush()
    server = HttpServer(app)
    http_server.Server(http_server.config(server.app, settings), server.close_streams, server.readiness).run(
        sockets=[listening]
    )
    server.drain()


class HttpServer:
    """The whole HTTP side as one ASGI application."""

    def __init__(self, app: App, mcp: McpServer | None = None) -> None:
        self._app = app
        self.mcp = mcp or McpServer(app)
        self.mcp.end_session = self._end_session
        self._manager = StreamableHTTPSessionManager(
            app=self.mcp.server, session_idle_timeout=app.settings.session_idle, max_sessions=None
        )
        self._sse = SseServerTransport("/mcp/messages")
        self._sse_streams: set[anyio.CancelScope] = set()
        self._relays: RelayListener | None = None  # if no other server serves the stdio clients
        self._ending: set[asyncio.Task[None]] = set()
        self.readiness = http_server.Readiness(app.settings.drain_seconds, app.access.check_database)
        self._requests = UnansweredRequests()
        self._handshakes = Pace(app.settings.user_handshakes, HANDSHAKE_BURST)  # by user
        self._server_calls = _server_calls_of(app)
        self._metrics = Metrics(app, self.mcp.pools, self._server_calls.pools if self._server_calls else ())
        self.mcp.tool_calls.on_call.append(self._metrics.count)
        self.app = self._create_asgi_app()

    def _create_asgi_app(self) -> FastAPI:
        asgi = FastAPI(
            title="Memory MCP",
            version=__version__,
            description="What a person signed in to the web app can do beside MCP itself.",
            openapi_url="/api/openapi.json",
            docs_url=None,
            redoc_url=None,
            routes=self._routes(),
            middleware=self._middleware(),
            exception_handlers=http_server.REFUSALS | {404: pages.missing},
            lifespan=self._lifespan,
        )
        asgi.state.app = self._app
        asgi.state.pools = self.mcp.pools
        asgi.state.routers = rest.ROUTERS
        asgi.state.listeners = self.mcp.listeners
        asgi.state.tool_calls = self.mcp.tool_calls
        asgi.state.downloads = rest.downloads.Downloads(self._app.settings.browser_transfers)
        asgi.state.import_jobs = ImportJobs(self._app.changes, self._app.settings.browser_transfers)
        for router in rest.ROUTERS:
            asgi.include_router(router)
        asgi.openapi = partial(rest.describe, asgi)  # type: ignore[method-assign]  # as its docs say
        return asgi

    def _routes(self) -> list[BaseRoute]:
        calls = self._server_calls
        return [
            *([Route(server_calls.PATH, calls, methods=["POST"])] if calls else []),
            Route("/mcp", self._endpoint()),
            Route("/mcp/sse", _Asgi(self._serve_sse), methods=["GET"]),
            Route("/mcp/messages", _Asgi(self._sse.handle_post_message)),
            Route("/healthz", http_server.health, methods=["GET"]),
            Route("/readyz", self.readiness.answer, methods=["GET"]),
            Route("/metrics", self._metrics.answer, methods=["GET"]),
            *pages.routes(),
        ]

    def _endpoint(self) -> "McpEndpoint":
        return McpEndpoint(StreamableHTTPASGIApp(self._manager), self.mcp.open_sessions, self._handshakes)

    def _middleware(self) -> list[Middleware]:
        app = self._app
        public = [app.settings.public_host] if app.settings.public_host else []
        hosts = [*LOOPBACK, app.settings.url_host, *app.settings.allowed_hosts, *public]
        return [
            Middleware(RequestIdMiddleware),
            Middleware(ErrorFormatMiddleware),
            Middleware(ShutdownMiddleware, requests=self._requests),
            Middleware(OriginMiddleware, hosts=hosts, public_url=app.settings.public_url),
            Middleware(
                McpCors,
                allow_origin_regex=_origins(hosts),
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=["mcp-session-id"],
            ),
            Middleware(
                AuthenticationMiddleware,
                keys=app.access.keys,
                families=app.families,
                protects="/mcp",
                anyone=local_caller(app) if app.settings.auth == "none" else None,
                limited=app.settings.rate_limits,
                pools=self.mcp.pools,
            ),
            Middleware(
                ServerCallMiddleware,
                verify=self._server_calls.verify if self._server_calls else None,
                workers=self.mcp.pools.access,
            ),
            Middleware(AdmissionMiddleware),
            Middleware(RateLimitMiddleware, limits=app.access.limits, workers=self.mcp.pools.access),
            Middleware(BodyLimitMiddleware, max_user_bytes=app.settings.user_request_bytes),
        ]

    async def close_streams(self) -> None:
        """Answer the calls that are under way, then end every open stream, so that the server does not wait for clients
        to disconnect."""
        self._requests.end()
        if self._relays:
            await self._relays.hand_over()  # before calls are cancelled: theirs go on at the next server
        self.mcp.listeners.close()
        self.mcp.cancel_calls()
        if self._server_calls:
            self._server_calls.close()
        self.app.state.downloads.closing = True
        self.app.state.import_jobs.close()
        await self._requests.wait_until_answered(shutdown.MAX_ANSWER_S)
        self.mcp.cut_off_writes()
        await self._requests.wait_until_answered(shutdown.MAX_CUT_OFF_S)
        await sdk.end_streams(self._manager)
        for scope in list(self._sse_streams):
            scope.cancel()

    def drain(self) -> None:
        """Wait until writes under way are done."""
        self.mcp.pools.writing.drain(shutdown.MAX_DRAIN_S)
        if self._server_calls:
            self._server_calls.writing.drain(shutdown.MAX_DRAIN_S)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.mcp.start_notifications()
        app = self._app
        http_server.allow_threads(app.settings)
        async with self._manager.run(), anyio.create_task_group() as tasks:
            self._relays = claim_socket(self.mcp)
            if self._relays:
                self._relays.verbs["stop"] = _stop
                tasks.start_soon(self._relays.run)
            tasks.start_soon(housekeeping.run, app)
            tasks.start_soon(
                housekeeping.repeat, KEY_CHECK_INTERVAL_S, (partial(disconnect_refused, app.clients, app.access.keys),)
            )
            yield
            tasks.cancel_scope.cancel()

    def _end_session(self, session_id: str) -> None:
        task = asyncio.ensure_future(sdk.end_session(self._manager, session_id))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _serve_sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope[CALLER]
        client = StreamClient(caller, Connection(caller.user, new_id()), "sse", permit=admission.CURRENT.get())
        await self._handshakes.wait(caller.user)
        async with self._sse.connect_sse(scope, receive, send) as (read, write):
            with (
                anyio.CancelScope() as until_closed,
                self.mcp.connected.call_on_close(client.connection, until_closed.cancel),
            ):
                self._sse_streams.add(until_closed)
                self.mcp.open_sessions.add(client.connection.id, caller.user, until_closed.cancel)
                self.mcp.connected.register(caller, client.connection, "sse")
                try:
                    await self.mcp.serve(client, read, UnreadAnswers(write, scope, caller.user))
                finally:
                    self._sse_streams.discard(until_closed)
                    self.mcp.open_sessions.remove(client.connection.id)
                    self.mcp.connected.flush_soon()


class McpCors(CORSMiddleware):
    """CORS for MCP clients in web pages, from any origin that OriginMiddleware accepts. Other paths are not open to
    other origins."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/mcp"):
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class McpEndpoint:
    """ASGI application: Streamable HTTP, which also notices when the client of a call disconnects, and delays a user's
    handshakes beyond a rate, before it reads them."""

    def __init__(self, app: ASGIApp, open_sessions: OpenSessions, handshakes: Pace) -> None:
        self._app = app
        self._open_sessions = open_sessions
        self._handshakes = handshakes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        disconnect = scope[DISCONNECT] = Disconnect()
        headers = MutableHeaders(scope=scope)
        del headers["last-event-id"]  # events have no ids here: a stream starts with the next event
        if scope["method"] == "POST" and sdk.begins_session(headers):
            await self._handshakes.wait(scope[CALLER].user)
        with self._open_sessions.request(headers.get("mcp-session-id")):
            await self._app(scope, disconnect.watch(receive), send)


class UnreadAnswers:
    """A stream of answers that counts those which wait for the client of a legacy SSE stream to read."""

    def __init__(self, stream: WriteStream[SessionMessage], scope: Scope, user: str) -> None:
        self._stream = stream
        self._scope = scope
        self._user = user

    async def send(self, item: SessionMessage, /) -> None:
        with request_connection.unread(self._scope, self._user, results.text_bytes(item.message)):
            await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._stream.__aexit__(*raised)


class _Asgi:
    """Starlette takes an object for an ASGI application, but a method for an endpoint that returns a response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _server_calls_of(app: App) -> "ServerCalls | None":
    """None: no other server forwards calls to this one."""
    if app.forwarder is None or "portals" not in app.families:
        return None
    from memory_mcp.server.server_calls import ServerCalls  # other servers start faster without it

    return ServerCalls(app, app.forwarder)


async def _stop(hello: Hello) -> dict[str, Any]:
    """End as on a signal, after the answer."""
    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
    return {"pid": os.getpid()}


def _origins(hosts: list[str]) -> str:
    """Every origin that OriginMiddleware accepts may read the answers."""
    return rf"(?i)https?://({'|'.join(map(re.escape, hosts))})(:\d+)?"


def _listen(app: App) -> socket.socket:
    try:
        return http_server.bind(app.settings)
    except Invalid as exc:
        if running := app.clients.addresses():
            raise Invalid(
                f"{exc.message} A server of this data directory already runs at {running[0].url}: `memory-mcp open` "
                "opens it, `memory-mcp stop` ends it.",
                field="port",
            ) from exc
        raise


def _refuse_unprotected_address(app: App) -> None:
    settings = app.settings
    is_reached_from_elsewhere = settings.public_url or settings.allowed_hosts or settings.forwarded_allow_ips
    if settings.auth == "none" and (not is_loopback(settings.host) or is_reached_from_elsewhere):
        raise Invalid(
            "--auth none works on loopback only. Use --host 127.0.0.1 without --public-url, --allowed-hosts and "
            "--forwarded-allow-ips, or keys.",
            field="auth",
        )
    if is_loopback(settings.host):
        return
    if not any(key.made_by == "person" for key in app.access.keys.active()):
        raise Invalid(
            f"Serving on {settings.host} gives other machines access, and no key has been created for that yet. "
            "Create one with `memory-mcp keys create --name NAME`, then start again.",
            field="host",
        )


def _first_key(app: App) -> str | None:
    if app.settings.auth == "none" or app.access.keys.active():
        return None
    return app.access.keys.create(name="first start", made_by="first-start").raw


def _first_sign_in(app: App) -> str | None:
    """A token for a sign-in link: until the local user has signed in, and at a terminal whenever no browser is."""
    sign_ins = app.access.sign_ins
    is_at_terminal = sys.stdout is not None and sys.stdout.isatty()
    is_wanted = not sign_ins.is_set_up() or (is_at_terminal and not sign_ins.is_signed_in(LOCAL_USER))
    if app.settings.auth == "none" or not is_wanted:
        return None
    return app.access.sign_ins.create_link_token(LOCAL_USER)
