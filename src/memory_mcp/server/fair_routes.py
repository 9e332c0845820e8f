"""REST routes that use the same fair shares of threads as MCP calls."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import wraps
from typing import Any

import anyio
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from memory_mcp.errors import Unavailable
from memory_mcp.server.admission import reacquire_current
from memory_mcp.server.disconnects import DISCONNECT, Disconnect
from memory_mcp.server.request_context import CALLER, network_of_client
from memory_mcp.server.thread_pools import Pools, Workers

SAFE_METHODS = {"GET", "HEAD"}
RUNS_IN_THREAD = "runs_in_thread"  # attribute of the functions of `in_thread`
REST = "rest"  # in place of a family's name, for routes of no family


def in_thread(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The function, run in a thread. What it returns waits until the event loop may make an answer of it."""

    @wraps(function)
    async def run(*arguments: Any, **named: Any) -> Any:
        returned = await run_in_threadpool(function, *arguments, **named)
        await reacquire_current()
        return returned

    setattr(run, RUNS_IN_THREAD, True)
    return run


class FairRoute(APIRoute):
    """Each request whose function is synchronous counts as one thread of its user. A request whose client disconnects
    leaves the queue. `async` functions manage their threads themselves."""

    @abstractmethod
    async def user_of(self, request: Request) -> str:
        """Whose share of the threads the request uses. Raises AppError for a request that is refused."""

    def workers_of(self, request: Request) -> tuple[Workers, str]:
        """Which pool, and which family within it."""
        return pools_of(request).pool(reads=request.method in SAFE_METHODS), REST

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        is_async = asyncio.iscoroutinefunction(endpoint)
        super().__init__(path, endpoint if is_async else in_thread(endpoint), **more)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        has_slot = getattr(self.endpoint, RUNS_IN_THREAD, False)

        async def run(request: Request) -> Response:
            user = await self.user_of(request)  # first: a long body is accepted from known users only
            await request.body()  # then only a disconnect can be received
            disconnect = request.scope[DISCONNECT] = Disconnect()
            watching = asyncio.ensure_future(disconnect.wait(request.receive))
            try:
                # A running thread is not stopped: it can check `disconnect.event`.
                with anyio.CancelScope() as scope, disconnect.call_on_disconnect(scope.cancel):
                    async with self._slot(request, user) if has_slot else nullcontext():
                        return await handle(request)
            finally:
                watching.cancel()
            raise Unavailable("The client has closed its connection.")

        return run

    def _slot(self, request: Request, user: str) -> AbstractAsyncContextManager[None]:
        workers, family = self.workers_of(request)
        return workers.slot(user, family)


class CallerRoute(FairRoute):
    """For requests with a key."""

    async def user_of(self, request: Request) -> str:
        return str(request.scope[CALLER].user)


class SignInRoute(FairRoute):
    """For sign-ins by password: each address has its share of the threads that compare passwords."""

    async def user_of(self, request: Request) -> str:
        return network_of_client(request.scope)

    def workers_of(self, request: Request) -> tuple[Workers, str]:
        return pools_of(request).hashing, REST


def pools_of(request: Request) -> Pools:
    found: Pools = request.app.state.pools
    return found
