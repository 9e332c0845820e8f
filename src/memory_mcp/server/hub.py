"""The hub's HTTP server, where nodes push and pull. Every request needs a key."""

import asyncio
import json
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp import __version__
from memory_mcp.app import HubApp
from memory_mcp.caller import Caller
from memory_mcp.server import http_server, shutdown
from memory_mcp.server.error_encoding import Problem
from memory_mcp.server.fair_routes import CallerRoute
from memory_mcp.server.middleware.authentication import AuthenticationMiddleware
from memory_mcp.server.middleware.error_format import ErrorFormatMiddleware
from memory_mcp.server.middleware.shutdown import ShutdownMiddleware
from memory_mcp.server.request_context import CALLER, owner_of
from memory_mcp.server.request_memory import HeldBody, RequestMemory
from memory_mcp.server.thread_pools import Pools
from memory_mcp.server.unanswered_requests import UnansweredRequests
from memory_mcp.services.sync.hub import Hub, Pulled, Pushed
from memory_mcp.services.sync.protocol import MAX_ANSWER_VALUES, MAX_RECORDS, unpack
from memory_mcp.settings import Settings
from memory_mcp.text.json_counts import count_values
from memory_mcp.text.names import MAX_NAMESPACE_CHARS

MAX_BODY_BYTES = 32 * 1024 * 1024  # bytes, once unpacked: one note is at most a few MiB
UNPACKED_PART_BYTES = 1024 * 1024
MAX_BODY_S = 120.0  # for a whole body to arrive, even if bytes keep coming


def run(app: HubApp) -> None:
    """Serve nodes until a signal stops the hub."""
    settings = app.settings
    listening = http_server.bind(settings)
    port = listening.getsockname()[1]
    sys.stdout.write(_startup_message(settings, port, has_keys=bool(app.access.keys.active())))
    sys.stdout.flush()
    made = asgi(app)

    async def answer_requests() -> None:
        made.state.requests.end()
        await made.state.requests.wait_until_answered(shutdown.MAX_ANSWER_S)

    http_server.Server(http_server.config(made, settings), answer_requests, made.state.readiness).run(
        sockets=[listening]
    )
    made.state.pools.writing.drain(shutdown.MAX_DRAIN_S)


def asgi(app: HubApp) -> FastAPI:
    """The hub as one ASGI application."""
    pools = Pools.from_settings(app.settings.model_copy(update={"transport": "http"}))
    readiness = http_server.Readiness(app.settings.drain_seconds, app.access.check_database)
    requests = UnansweredRequests()
    made = FastAPI(
        title="Memory MCP hub",
        version=__version__,
        description="Where the nodes of a user exchange their notes. docs/sync.md says what a record is.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        routes=[
            Route("/healthz", http_server.health, methods=["GET"]),
            Route("/readyz", readiness.answer, methods=["GET"]),
        ],
        middleware=[
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=3),
            Middleware(ErrorFormatMiddleware),
            Middleware(ShutdownMiddleware, requests=requests),
            Middleware(
                AuthenticationMiddleware,
                keys=app.access.keys,
                families=["notes"],
                protects="/api/sync",
                anyone=None,
                limited=False,
                pools=pools,
            ),
            Middleware(UnpackMiddleware, max_user_bytes=app.settings.user_request_bytes),
        ],
        exception_handlers=http_server.REFUSALS,
        lifespan=_lifespan,
    )
    made.state.settings = app.settings
    made.state.pools = pools
    made.state.readiness, made.state.requests = readiness, requests
    made.state.hub = app.hub
    made.state.routers = (router,)
    made.include_router(router)
    return made


@asynccontextmanager
async def _lifespan(made: FastAPI) -> AsyncIterator[None]:
    http_server.allow_threads(made.state.settings)
    yield


class ThreadedRequest(Request):
    """Its body is parsed in a thread, which counts for its user: it may have a million values, and the requests of
    other users go on meanwhile."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await anyio.to_thread.run_sync(_parse, await self.body())
        return self._json


def _parse(body: bytes) -> Any:
    """413 for too many values: parsed, a few bytes of JSON become hundreds."""
    if b"\0" in body:  # as in UTF-16, which the parser accepts and count_values does not
        raise HTTPException(422, "The body is not JSON in UTF-8. Send it so.")
    if count_values(body, MAX_ANSWER_VALUES) > MAX_ANSWER_VALUES:
        raise HTTPException(413, f"A push brings at most {MAX_ANSWER_VALUES:,} values.")
    return json.loads(body)


class ThreadedRoute(CallerRoute):
    """Requests whose bodies are parsed once their user has a thread."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def run(request: Request) -> Response:
            return await handle(ThreadedRequest(request.scope, request.receive))

        return run


router = APIRouter(
    prefix="/api/sync",
    route_class=ThreadedRoute,
    responses={status: {"model": Problem} for status in (401, 403, 409, 413, 422, 429, 503)},
)


class SyncRequest(BaseModel):
    """Base of the requests of a node. It sends the ticket of the hub's last answer."""

    node: str = Field(pattern=r"^[0-9a-z]{1,32}$", description="The node's id.")
    ticket: str | None = Field(None, max_length=64, description="The ticket of the hub's last answer; null at first.")
    seal: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{16}$",
        description="Identifies the secret the notes are encrypted with; null for none.",
    )


class PushRequest(SyncRequest):
    records: list[Any] = Field(max_length=MAX_RECORDS, description="Each as docs/sync.md describes it.")


class PullRequest(SyncRequest):
    namespace: str = Field(min_length=1, max_length=MAX_NAMESPACE_CHARS)
    after: int = Field(0, ge=0, le=2**53, description="The cursor of the last answer.")
    own: bool = Field(False, description="Also what this node has pushed itself.")
    limit: int = Field(MAX_RECORDS, ge=1, le=MAX_RECORDS)


async def _hub(request: Request) -> Hub:
    found: Hub = request.app.state.hub
    return found


async def _caller(request: Request) -> Caller:
    found: Caller = request.scope[CALLER]
    return found


TheHub = Annotated[Hub, Depends(_hub)]
TheCaller = Annotated[Caller, Depends(_caller)]


@router.post("/push")
def push(body: PushRequest, hub: TheHub, caller: TheCaller) -> Pushed:
    """Merge up to 200 records. The answer names those that were refused, and gives those the hub knew more about."""
    return hub.push(caller, body.node, body.ticket, body.seal, body.records)


@router.post("/pull")
def pull(body: PullRequest, hub: TheHub, caller: TheCaller) -> Pulled:
    """What changed in a namespace after a cursor."""
    return hub.pull(
        caller,
        body.node,
        body.ticket,
        body.seal,
        body.namespace,
        body.after,
        own=body.own,
        limit=body.limit,
    )


class UnpackMiddleware:
    """ASGI middleware: bodies in gzip, and 413 for any that is too large once unpacked; 503 if those of one user are
    too large together."""

    def __init__(self, app: ASGIApp, max_user_bytes: int) -> None:
        self._app = app
        self._memory = RequestMemory(max_user_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_packed = Headers(scope=scope).get("content-encoding", "") == "gzip"
        held = HeldBody(self._memory)
        body = _UnpackedBody(scope, receive, held, zlib.decompressobj(wbits=31) if is_packed else None)
        if is_packed:
            headers = MutableHeaders(scope=scope)
            del headers["content-encoding"], headers["content-length"]
        with held.hold():
            await self._app(scope, body.take, send)


class _UnpackedBody:
    """The body of one request."""

    def __init__(self, scope: Scope, receive: Receive, held: HeldBody, unpacker: Any) -> None:
        self._owner = owner_of(scope)
        self._receive = receive
        self._held = held
        self._unpacker = unpacker
        self._until = asyncio.get_running_loop().time() + MAX_BODY_S
        self._taken = 0
        self._packed = b""  # received and not unpacked yet
        self._has_more = True

    async def take(self) -> Message:
        if not self._packed:
            if not self._has_more:  # no timeout: the next message says that the client has disconnected
                return await self._receive()
            message = await self._receive_in_time()
            if message["type"] != "http.request":
                return message
            self._packed, self._has_more = message.get("body", b""), message.get("more_body", False)
        part = await self._next_part()
        self._taken += len(part)
        if self._taken > MAX_BODY_BYTES:
            raise HTTPException(413, f"A push brings at most {MAX_BODY_BYTES:,} bytes, once unpacked.")
        self._held.add(self._owner, len(part))
        return {"type": "http.request", "body": part, "more_body": self._has_more or bool(self._packed)}

    async def _receive_in_time(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                return await self._receive()
        except TimeoutError as exc:
            self._has_more = False
            raise HTTPException(408, f"A push takes at most {MAX_BODY_S:.0f} seconds to arrive.") from exc

    async def _next_part(self) -> bytes:
        """A few bytes may be millions once unpacked: each part is counted before the next one is."""
        if self._unpacker is None or not self._packed:
            part, self._packed = self._packed, b""
            return part
        part = await anyio.to_thread.run_sync(_unpack, self._unpacker, self._packed)
        self._packed = self._unpacker.unconsumed_tail
        return part


def _unpack(unpacker: Any, packed: bytes) -> bytes:
    try:
        return unpack(unpacker, packed, UNPACKED_PART_BYTES)
    except zlib.error as exc:
        raise HTTPException(422, "The body is not gzip, as its Content-Encoding says. Send it so, or plainly.") from exc


def _startup_message(settings: Settings, port: int, *, has_keys: bool) -> str:
    base = settings.public_url or f"http://{settings.url_host}:{port}"
    lines = [
        f"Memory MCP {__version__}, hub",
        "",
        f"  Nodes    {base}",
        f"  Data     {settings.data_dir}",
        "",
        *([] if has_keys else ["There is no key yet.", ""]),
        "Create a key for each user, and link each of their nodes with it:",
        "",
        f"  memory-mcp keys create --name NODE --data-dir {settings.data_dir}",
        f"  memory-mcp sync link {base} --key KEY",
        "",
        "",
    ]
    return "\n".join(lines)
