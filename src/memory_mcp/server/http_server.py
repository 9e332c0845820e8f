"""Shared by all HTTP servers here: the socket, the shutdown, and the format of errors."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import anyio.to_thread
import uvicorn
from fastapi.exceptions import RequestValidationError
from sse_starlette.sse import AppStatus
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match, Route

from memory_mcp import __version__
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.server import error_encoding, event_loop, shutdown
from memory_mcp.server.connections import Connections, LimitedConfig
from memory_mcp.settings import Settings
from memory_mcp.system import garbage
from memory_mcp.text.validation import sentence

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]  # the module is simply absent there

MAX_FILES = 65_536  # open at once; more would only cost memory
MIN_OTHER_FILES = 128  # kept for databases, beside connections
LISTEN_BACKLOG = 2048  # connections that the kernel keeps until they are accepted
MAX_ACCEPTED_AT_ONCE = 4  # in one round of the event loop: open connections have their requests read in between
CHECK_INTERVAL_S = 1.0  # between two checks whether the database answers
OTHER_THREADS = 64  # for housekeeping, files of the web app, and sessions that end
NOT_JSON = "The body is not JSON in UTF-8. Send an object, as the schema says."


def config(app: Any, settings: Settings) -> uvicorn.Config:
    files = raise_file_limit()
    return LimitedConfig(
        app,
        connections=Connections(
            max_per_address=settings.address_connections,
            max_per_user=settings.user_connections,
            max_user_bytes=settings.user_request_bytes,
            max_refused=settings.refused_connections,
            max_total=files - max(MIN_OTHER_FILES, files // 4),
            proxies=settings.forwarded_allow_ips,
        ),
        header_s=settings.header_seconds,
        body_s=settings.body_seconds,
        send_s=settings.send_seconds,
        backlog=MAX_ACCEPTED_AT_ONCE,
        loop=f"{event_loop.__name__}:{event_loop.new_event_loop.__name__}",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        proxy_headers=bool(settings.forwarded_allow_ips),
        forwarded_allow_ips=list(settings.forwarded_allow_ips),
    )


def raise_file_limit() -> int:
    """Raise the limit of open files as far as the system allows. Returns the new limit."""
    if resource is None:
        return MAX_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MAX_FILES if soft == resource.RLIM_INFINITY else min(soft, MAX_FILES)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS has a lower bound of its own
        return soft
    return wanted


def allow_threads(settings: Settings) -> None:
    """Give FastAPI as many threads as there are slots for its requests, so that only the slots decide which requests
    wait. Call inside the event loop."""
    slots = settings.read_threads + settings.write_threads
    anyio.to_thread.current_default_thread_limiter().total_tokens = slots + OTHER_THREADS


class Server(uvicorn.Server):
    """uvicorn waits for open streams before it ends, and then ends the process by the signal it caught. This one ends
    the streams at the signal, accepts connections until that is done, so that their clients get an answer, and returns,
    so that sessions end and files are closed."""

    def __init__(
        self, config: uvicorn.Config, close_streams: Callable[[], Awaitable[None]], readiness: "Readiness | None" = None
    ) -> None:
        super().__init__(config)
        AppStatus.enable_automatic_graceful_drain = False  # it would cut off answers at the signal
        self._end_streams = close_streams
        self._readiness = readiness or Readiness()
        self._closing: asyncio.Future[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(LISTEN_BACKLOG)  # asyncio has set it to the number that it accepts at once
        gc.collect()
        garbage.start_collection()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._close_streams()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def end(number: int, frame: FrameType | None = None) -> None:
            if not self.should_exit:
                shutdown.limit_shutdown()
                loop.call_soon_threadsafe(self._close_streams)
            self.handle_exit(number, frame)

        def stop(number: int, frame: FrameType | None) -> None:
            if self._readiness.begin_drain():
                loop.call_soon_threadsafe(lambda: loop.call_later(self._readiness.drain_s, end, number))
            else:
                end(number, frame)

        former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _close_streams(self) -> asyncio.Future[None]:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._end_streams())
        return self._closing


async def _refuse(_: Request, error: Exception) -> Response:
    return error_encoding.problem(cast(AppError, error))


async def refuse_plainly(request: Request, error: Exception) -> Response:
    """A plain text, which ErrorFormatMiddleware converts."""
    refused = cast(HTTPException, error)
    if refused.status_code == 400:  # FastAPI could not read the body
        return error_encoding.problem(Invalid(NOT_JSON))
    headers = {"Allow": ", ".join(sorted(_methods(request)))} if refused.status_code == 405 else refused.headers
    return PlainTextResponse(refused.detail, refused.status_code, headers)


def _methods(request: Request) -> set[str]:
    """The methods of this path. Starlette would name the methods of the first route that has it."""
    routers = (request.app.router, *request.app.state.routers)
    routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
    return {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


async def _refuse_shape(_: Request, error: Exception) -> Response:
    first = cast(RequestValidationError, error).errors()[0]
    if first["type"] == "json_invalid":
        return error_encoding.problem(Invalid(NOT_JSON))
    field = ".".join(str(part) for part in first["loc"][1:])
    message = f"{field}: {sentence(first)}." if field else f"{sentence(first).capitalize()}."
    return error_encoding.problem(Invalid(message, field=field))


async def _fail(request: Request, error: Exception) -> Response:
    """A bug: the server's log has all of it, the caller sees no details."""
    return error_encoding.problem(Unavailable("The server failed here, and its log says why."), 500)


class Readiness:
    """Whether this server wants requests. From the signal that ends it, it does not: for `drain_s` it still answers, so
    that a load balancer can notice. A second signal ends it at once."""

    def __init__(self, drain_s: float = 0.0, check_database: Callable[[], object] = lambda: None) -> None:
        self.drain_s = drain_s
        self.is_draining = False
        self._check_database = check_database
        self._checked = (-CHECK_INTERVAL_S, "")  # when, and what was wrong
        self._checking = asyncio.Lock()

    def begin_drain(self) -> bool:
        """False if there is nothing to wait for."""
        is_first, self.is_draining = not self.is_draining, True
        return is_first and self.drain_s > 0

    async def answer(self, _: Request) -> JSONResponse:
        """The database is asked once a second at most, however many requests come."""
        if self.is_draining:
            return JSONResponse({"status": "draining"}, 503)
        async with self._checking:
            if time.monotonic() - self._checked[0] >= CHECK_INTERVAL_S:
                problem = await anyio.to_thread.run_sync(self._problem)
                self._checked = (time.monotonic(), problem)
        if problem := self._checked[1]:
            return JSONResponse({"status": "unavailable", "message": problem}, 503)
        return JSONResponse({"status": "ready"})

    def _problem(self) -> str:
        try:
            self._check_database()
        except AppError as exc:
            return exc.message
        return ""


async def health(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ok", "version": __version__})


REFUSALS: dict[Any, Any] = {
    AppError: _refuse,
    HTTPException: refuse_plainly,
    RequestValidationError: _refuse_shape,
    Exception: _fail,
}
"""The handler of each kind of error."""


def bind(settings: Settings) -> socket.socket:
    host = settings.host.strip("[]")
    try:
        family = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, settings.port), family=family, backlog=LISTEN_BACKLOG)
        # Every connection inherits it. asyncio sets it only on sockets that name their protocol, which these do not,
        # and without it each event on a stream waits 40 ms for the acknowledgement of the one before.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as exc:
        reason = os.strerror(exc.errno) if isinstance(exc.errno, int) and exc.errno > 0 else exc.strerror
        raise Invalid(
            f"Cannot listen on {settings.host}:{settings.port}: {reason}. Is another server running there? Choose "
            "another --port.",
            field="port",
        ) from exc
