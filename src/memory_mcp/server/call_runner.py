"""Runs the synchronous code of families in threads, with a way back for progress and cancellation."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio

from memory_mcp.app import App
from memory_mcp.errors import Unavailable
from memory_mcp.families.family import Call
from memory_mcp.server import request_connection, request_context, shutdown
from memory_mcp.server.disconnects import disconnect_of
from memory_mcp.server.sdk import RequestContext
from memory_mcp.server.thread_pools import Pools

T = TypeVar("T")


class CallRunner:
    def __init__(self, app: App, pools: Pools) -> None:
        self._app = app
        self._pools = pools
        self._running: dict[threading.Event, _Running] = {}

    async def run(self, ctx: RequestContext, family: str, work: Callable[..., T], *rest: Any, reads: bool = True) -> T:
        """Call `work` with the request's Call and `rest`. Raises Unavailable if no thread is free in time, or if the
        client disconnects."""
        caller, cancelled = request_context.caller(ctx), threading.Event()
        progress = partial(_report_progress, asyncio.get_running_loop(), ctx)
        operations = self._app.opened[family].operations
        call = Call(operations, caller, request_context.session(ctx, self._app.sessions), progress, cancelled)
        scope = ctx.request.scope if ctx.request is not None else {}
        disconnect = disconnect_of(scope)
        try:
            with (
                anyio.CancelScope() as cancelling,
                disconnect.call_on_disconnect(cancelling.cancel) if disconnect else nullcontext(),
            ):
                self._running[cancelled] = _Running(cancelling, reads)
                workers = self._pools.pool(reads=reads)
                run = partial(self._run_in_session, scope, call, work, *rest)
                return await workers.run(run, user=caller.user, family=family)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        finally:
            self._running.pop(cancelled, None)
        cancelled.set()
        raise _read_cut_off() if reads else shutdown.write_cut_off("call")

    def _run_in_session(self, scope: Mapping[str, Any], call: Call[Any], work: Callable[..., T], *rest: Any) -> T:
        request_connection.check_unread(scope, call.caller.user)  # it may have waited while others were answered
        session = self._app.sessions.join(call.caller.user, call.session)
        caller = replace(call.caller, client=session.client, session_id=session.id)
        return work(replace(call, session=session, caller=caller), *rest)

    def cancel_all(self) -> None:
        """Cancel every call: the server ends. A call that only reads is answered now; a write in its transaction may
        still finish."""
        for cancelled, call in list(self._running.items()):
            cancelled.set()
            if call.reads:
                call.scope.cancel()

    def cut_off_writes(self) -> None:
        """Answer the writes that are still under way. Their threads may go on."""
        for call in list(self._running.values()):
            call.scope.cancel()


class _Running(NamedTuple):
    scope: anyio.CancelScope
    reads: bool


def _read_cut_off() -> Unavailable:
    return Unavailable(
        "The server is stopping, or the client has closed its connection. Try again.",
        retry_after=shutdown.RETRY_AFTER_S,
    )


def _report_progress(
    loop: asyncio.AbstractEventLoop, ctx: RequestContext, what: str, done: int, total: int | None
) -> None:
    asyncio.run_coroutine_threadsafe(ctx.session.report_progress(done, total, what), loop).result()
