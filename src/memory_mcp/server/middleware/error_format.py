"""Errors over HTTP in one format, from all parts of the stack."""

import json
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_mcp.errors import AppError
from memory_mcp.server import error_encoding


class ErrorFormatMiddleware:
    """ASGI middleware: a text becomes `{"error", "message", "data"}`, or a problem under /api; no details of a
    validator are sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = bytearray()

        async def reshape(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message  # held back until its body is known
            elif start is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    await _send(send, start, bytes(body), is_api=scope["path"].startswith("/api/"))

        await self._app(scope, receive, reshape)


async def _send(send: Send, start: Message, body: bytes, *, is_api: bool) -> None:
    headers = MutableHeaders(raw=start["headers"])
    reshaped = _reshape(start["status"], headers.get("content-type", ""), body, is_api=is_api)
    if reshaped is not None:
        body, headers["content-type"] = reshaped
    headers["content-length"] = str(len(body))
    await send({**start, "headers": headers.raw})
    await send({"type": "http.response.body", "body": body})


def _reshape(status: int, content_type: str, body: bytes, *, is_api: bool) -> tuple[bytes, str] | None:
    """The body to send instead, and its type; None if this one is fine."""
    if content_type == error_encoding.MEDIA_TYPE or content_type.startswith("text/html"):
        return None
    if not content_type.startswith("application/json"):
        text = body.decode(errors="replace").strip() or f"HTTP {status}"
        return _encode(AppError(text, code=error_encoding.code_for_status(status)), status, is_api=is_api)
    try:
        sent: dict[str, Any] = json.loads(body)
    except ValueError:
        return None
    if is_api:
        return _encode(AppError(sent["message"], code=sent["error"]), status, is_api=True)
    error = sent.get("error") if isinstance(sent, dict) else None
    if isinstance(error, dict) and str(error.get("message", "")).startswith("Validation error"):
        changed = error_encoding.malformed(error["code"], error_encoding.NOT_JSON_RPC)
        return _dump(sent | {"error": changed.model_dump()})
    return None


def _encode(error: AppError, status: int, *, is_api: bool) -> tuple[bytes, str]:
    if is_api:
        return bytes(error_encoding.problem(error, status).body), error_encoding.MEDIA_TYPE
    return _dump(error_encoding.body(error))


def _dump(value: dict[str, Any]) -> tuple[bytes, str]:
    return json.dumps(value, ensure_ascii=False).encode(), "application/json"
