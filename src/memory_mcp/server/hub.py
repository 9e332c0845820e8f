"""The hub's HTTP server, where nodes push and pull. Every request needs a key."""

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any

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
from memory_mcp.names import MAX_NAMESPACE_CHARS
from memory_mcp.server import http_server, shutdown
from memory_mcp.server.error_encoding import Problem
from memory_mcp.server.fair_routes import CallerRoute
from memory_mcp.server.middleware.authentication import AuthenticationMiddleware
from memory_mcp.server.middleware.error_format import ErrorFormatMiddleware
from memory_mcp.server.request_context import CALLER
from memory_mcp.server.thread_pools import Pools
from memory_mcp.settings import Settings
from memory_mcp.sync.hub import Hub, Pulled, Pushed
from memory_mcp.sync.protocol import MAX_ANSWER_VALUES, MAX_RECORDS, count_values

MAX_BODY_BYTES = 32 * 1024 * 1024  # bytes, once unpacked: one note is at most a few MiB
MAX_BODY_S = 120.0  # for a whole body to arrive, even if bytes keep coming


def run(app: HubApp) -> None:
    """Serve nodes until a signal stops the hub."""
    settings = app.settings
    listening = http_server.bind(settings)
    port = listening.getsockname()[1]
    sys.stdout.write(_startup_message(settings, port, has_keys=bool(app.access.keys.active())))
    sys.stdout.flush()
    made = asgi(app)
    http_server.Server(http_server.config(made, settings), _nothing_to_end, made.state.readiness).run(
        sockets=[listening]
    )
    made.state.pools.writing.drain(shutdown.MAX_WRITE_S)


def asgi(app: HubApp) -> FastAPI:
    """The hub as one ASGI application."""
    pools = Pools.from_settings(app.settings.model_copy(update={"transport": "http"}))
    readiness = http_server.Readiness(app.settings.drain_seconds, app.access.check_database)
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
            Middleware(
                AuthenticationMiddleware,
                keys=app.access.keys,
                families=["notes"],
                protects="/api/sync",
                anyone=None,
                limited=False,
                pools=pools,
            ),
            Middleware(UnpackMiddleware),
        ],
        exception_handlers=http_server.REFUSALS,
        lifespan=_lifespan,
    )
    made.state.settings = app.settings
    made.state.pools = pools
    made.state.readiness = readiness
    made.state.hub = app.hub
    made.state.routers = (router,)
    made.include_router(router)
    return made


@asynccontextmanager
async def _lifespan(made: FastAPI) -> AsyncIterator[None]:
    http_server.allow_threads(made.state.settings)
    yield


class CountedRoute(CallerRoute):
    """413 for a body with too many values: parsed, a few bytes of JSON become hundreds."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def run(request: Request) -> Response:
            _check_values(await request.body())
            return await handle(request)

        return run


def _check_values(body: bytes) -> None:
    if b"\0" in body:  # as in UTF-16, which the parser accepts and count_values does not
        raise HTTPException(422, "The body is not JSON in UTF-8. Send it so.")
    if count_values(body) > MAX_ANSWER_VALUES:
        raise HTTPException(413, f"A push brings at most {MAX_ANSWER_VALUES:,} values.")


router = APIRouter(
    prefix="/api/sync",
    route_class=CountedRoute,
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
    """ASGI middleware: bodies in gzip, and 413 for any that is too large once unpacked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_packed = Headers(scope=scope).get("content-encoding", "") == "gzip"
        unpacker = zlib.decompressobj(wbits=31) if is_packed else None
        taken, until = 0, asyncio.get_running_loop().time() + MAX_BODY_S
        is_whole = False

        async def take() -> Message:
            nonlocal taken, is_whole
            if is_whole:  # no timeout: the next message says that the client has disconnected
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError as exc:
                raise HTTPException(408, f"A push takes at most {MAX_BODY_S:.0f} seconds to arrive.") from exc
            is_whole = not message.get("more_body", False)
            if message["type"] != "http.request":
                return message
            body = _unpack(unpacker, message.get("body", b"")) if unpacker else message.get("body", b"")
            taken += len(body)
            if taken > MAX_BODY_BYTES:
                raise HTTPException(413, f"A push brings at most {MAX_BODY_BYTES:,} bytes, once unpacked.")
            return {**message, "body": body}

        if is_packed:
            headers = MutableHeaders(scope=scope)
            del headers["content-encoding"], headers["content-length"]
        await self._app(scope, take, send)


def _unpack(unpacker: Any, packed: bytes) -> bytes:
    try:
        unpacked: bytes = unpacker.decompress(packed, MAX_BODY_BYTES + 1)
    except zlib.error as exc:
        raise HTTPException(422, "The body is not gzip, as its Content-Encoding says. Send it so, or plainly.") from exc
    return unpacked


async def _nothing_to_end() -> None:
    """A hub has no streams."""


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
