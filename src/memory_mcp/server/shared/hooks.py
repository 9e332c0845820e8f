"""Hooks of clients, which send one request each to the warm server."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

import anyio.to_thread

from memory_mcp.app import App, answer_hook, resume_captures
from memory_mcp.conversations.texts import counted_messages
from memory_mcp.errors import AppError
from memory_mcp.hooks import records
from memory_mcp.hooks.events import CAPTURE_STARTED, MOMENTS
from memory_mcp.server.shared import hello as hellos
from memory_mcp.server.shared.hello import Hello

log = logging.getLogger(__name__)


class HookAnswers:
    def __init__(self, app: App) -> None:
        self._app = app
        self._background: set[asyncio.Task[None]] = set()

    async def answer(self, hello: Hello) -> dict[str, Any]:
        """What `answer_hook` returns, or the reason under `failed`.

        A capture goes on after the answer, and is recorded when it ends. After the start of a conversation, those whose
        client was killed are captured. Raises Invalid if the client has other settings for hooks.
        """
        hellos.check_settings(self._app, hello, prefix="hook")
        call = hello.payload
        moment = MOMENTS.get(str(call.get("event")))
        if moment == "capture":
            self._start(self._capture(call))
            return CAPTURE_STARTED
        answered = await self._run(call)
        if moment == "start":
            self._start(self._resume(call))
        return answered

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _capture(self, call: dict[str, Any]) -> None:
        answered = await self._run(call)
        self._record(call, answered.get("report") or {"did": "nothing", "why": answered.get("failed")})

    async def _resume(self, call: dict[str, Any]) -> None:
        try:
            stored = await anyio.to_thread.run_sync(resume_captures, self._app, abandon_on_cancel=True)
        except AppError as exc:
            self._record(call, {"did": "nothing", "why": str(exc)})
        else:
            if stored:
                self._record(
                    call, {"did": f"stored {counted_messages(stored)} of conversations whose client was killed"}
                )

    def _record(self, call: dict[str, Any], report: dict[str, Any]) -> None:
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
