"""Hooks of clients, which send one request each to the warm server."""

import logging
from typing import Any

import anyio.to_thread

from memory_mcp.app import App
from memory_mcp.app.hooks import answer_hook
from memory_mcp.errors import AppError
from memory_mcp.server.shared import hello as hellos
from memory_mcp.server.shared.hello import Hello

log = logging.getLogger(__name__)


async def answer(app: App, hello: Hello) -> dict[str, Any]:
    """What `answer_hook` returns, or the reason under `failed`. Raises Invalid if the settings of the client differ."""
    hellos.check_settings(app, hello)
    call = hello.payload
    try:
        return await anyio.to_thread.run_sync(
            answer_hook, app, str(call.get("event")), call.get("payload") or {}, str(call.get("client"))
        )
    except (AppError, OSError) as exc:
        return {"failed": str(exc)}
    except Exception as exc:  # a bug in it must not end the connection without an answer
        log.exception("A hook failed")
        return {"failed": type(exc).__name__}
