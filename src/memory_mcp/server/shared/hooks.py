"""Hooks of clients, which send one request each to the warm server."""

import asyncio
import logging
from functools import partial
from typing import Any

import anyio.to_thread

from memory_mcp.app import App, answer_hook
from memory_mcp.errors import AppError
from memory_mcp.hooks import records
from memory_mcp.hooks.events import CAPTURE_STARTED, is_capture
from memory_mcp.server.shared import hello as hellos
from memory_mcp.server.shared.hello import Hello

log = logging.getLogger(__name__)


class HookAnswers:
    def __init__(self, app: App) -> None:
        self._app = app
        self._captures: set[asyncio.Task[None]] = set()

    async def answer(self, hello: Hello) -> dict[str, Any]:
        """What `answer_hook` returns, or the reason under `failed`. A capture goes on after the answer, and is recorded
        when it ends. Raises Invalid if the client has other settings for hooks."""
        hellos.check_settings(self._app, hello, prefix="hook")
        call = hello.payload
        if not is_capture(str(call.get("event"))):
            return await self._run(call)
        task = asyncio.create_task(self._capture(call))
        self._captures.add(task)
        task.add_done_callback(self._captures.discard)
        return CAPTURE_STARTED

    async def _capture(self, call: dict[str, Any]) -> None:
        answered = await self._run(call)
        report = answered.get("report") or {"did": "nothing", "why": answered.get("failed")}
        named = {"client": call.get("client"), "event": call.get("event")}
        records.add(str(self._app.settings.data_dir), named | report)

    async def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        event, payload, client = str(call.get("event")), call.get("payload") or {}, str(call.get("client"))
        try:
            return await anyio.to_thread.run_sync(
                partial(answer_hook, self._app, event, payload, client), abandon_on_cancel=True
            )
        except (AppError, OSError) as exc:
            return {"failed": str(exc)}
        except Exception as exc:  # a bug in it must not end the connection without an answer
            log.exception("A hook failed")
            return {"failed": type(exc).__name__}
