"""Refusals over HTTP in one shape, whichever part of the stack refuses."""

import json
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.server import problem_details

STATUS_WORDS = {404: "not_found", 413: "too_large", 429: "rate_limited", 503: "unavailable"}


class ErrorFormatMiddleware:
    """ASGI middleware: a text becomes `{"error", "message", "data"}`, or a problem under /api; a validator's inner life
    stays inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = bytearray()

        async def tell(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message  # held back until its body is known
            elif start is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    await _send(send, start, bytes(body), is_api=scope["path"].startswith("/api/"))

        await self._app(scope, receive, tell)


async def _send(send: Send, start: Message, body: bytes, *, is_api: bool) -> None:
    headers = MutableHeaders(raw=start["headers"])
    content_type = headers.get("content-type", "")
    said = _plain(start["status"], content_type, body, is_api=is_api)
    if said is not None and is_api:
        problem = problem_details.of(start["status"], said["error"], said["message"])
        body, headers["content-type"] = bytes(problem.body), problem_details.MEDIA_TYPE
    elif said is not None:
        body, headers["content-type"] = json.dumps(said, ensure_ascii=False).encode(), "application/json"
    headers["content-length"] = str(len(body))
    await send({**start, "headers": headers.raw})
    await send({"type": "http.response.body", "body": body})


def _plain(status: int, content_type: str, body: bytes, *, is_api: bool) -> dict[str, Any] | None:
    """What to say instead; None if what was said is fine."""
    if content_type == problem_details.MEDIA_TYPE or content_type.startswith("text/html"):
        return None
    if not content_type.startswith("application/json"):
        text = body.decode(errors="replace").strip() or f"HTTP {status}"
        return {"error": STATUS_WORDS.get(status, "invalid"), "message": text, "data": {}}
    try:
        said: dict[str, Any] = json.loads(body)
    except ValueError:
        return None
    if is_api:
        return said
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict) and str(error.get("message", "")).startswith("Validation error"):
        error["message"] = "This is not a JSON-RPC 2.0 message."
        error["data"] = {"error": "invalid"}
        return said
    return None
