"""Periodic work of a server."""

import logging
from collections.abc import Callable, Iterable

import anyio
import anyio.to_thread

from memory_mcp.app import App
from memory_mcp.errors import AppError
from memory_mcp.system import operating_system

log = logging.getLogger(__name__)

INTERVAL_S = 60.0  # between two cleanups of idle sessions and stopped servers


async def run(app: App) -> None:
    await repeat(min(INTERVAL_S, app.settings.session_idle / 4), chores(app))


def chores(app: App) -> tuple[Callable[[], None], ...]:
    return (
        app.release_unused,  # first: the other chores use files that no client uses
        app.sessions.end_idle,
        app.sessions.end_stale,
        app.sessions.delete_expired,
        app.clients.flush,
        app.clients.delete_stale,
        app.analytics.flush,
        app.access.limits.delete_unused,
        *app.housekeeping(),
        operating_system.release_free_memory,
    )


async def repeat(interval_s: float, chores: Iterable[Callable[[], None]]) -> None:
    while True:
        await anyio.sleep(interval_s)
        for chore in chores:
            try:
                await anyio.to_thread.run_sync(chore)
            except AppError as exc:
                log.warning("Housekeeping failed and will be tried again: %s", exc.message)
            except Exception:  # a bug in it must not stop the server
                log.exception("Housekeeping failed")
