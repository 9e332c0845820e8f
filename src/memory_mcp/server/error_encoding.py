"""How errors leave the server: as JSON-RPC errors and tool results (MCP), as `{"error", "message", "data"}` where HTTP
refuses a request of an MCP client, and as problem details (RFC 9457) over REST. All go by one table."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import JSONResponse

from memory_mcp.errors import AppError, Conflict, Forbidden, Invalid, NotFound, RateLimited, Unavailable, shorten
from memory_mcp.families.family import Family
from memory_mcp.services.access import KeyRefused, NotSignedIn
from memory_mcp.text.invisible_characters import escape_in_json, show
from memory_mcp.text.validation import sentence

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
NOT_JSON_RPC = "This is not a JSON-RPC 2.0 message."


class WireCodes(NamedTuple):
    json_rpc: int
    http: int


WIRE_CODES = {
    Invalid.code: WireCodes(types.INVALID_PARAMS, 422),
    "too_large": WireCodes(types.INVALID_PARAMS, 413),
    NotFound.code: WireCodes(types.INVALID_PARAMS, 404),
    Conflict.code: WireCodes(types.INVALID_PARAMS, 409),
    RateLimited.code: WireCodes(types.INVALID_PARAMS, 429),
    Unavailable.code: WireCodes(types.INTERNAL_ERROR, 503),
    Forbidden.code: WireCodes(types.INVALID_PARAMS, 403),
    KeyRefused.code: WireCodes(types.INVALID_PARAMS, 401),
    NotSignedIn.code: WireCodes(types.INVALID_PARAMS, 401),
}
"""By the code of an error. One that is not listed goes by the code of its class."""


def wire_codes(error: AppError) -> WireCodes:
    return WIRE_CODES.get(error.code) or WIRE_CODES[type(error).code]


def code_for_status(status: int) -> str:
    """For an error of the framework, which has no code of ours."""
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Invalid.code  # it is not about keys or scopes
    return next((code for code, wire in WIRE_CODES.items() if wire.http == status), Invalid.code)


def body(error: AppError) -> dict[str, Any]:
    """For MCP clients, and so for models."""
    _log_unusable(error)
    return {"error": error.code, "message": error.text_for_models, "data": error.data}


def _log_unusable(error: AppError) -> None:
    if error.public_message != error.message:  # the message names a file, which callers do not see
        log.warning("A call failed: %s", error.message)


# MCP


def rpc_error(error: AppError) -> MCPError:
    _log_unusable(error)
    return MCPError(wire_codes(error).json_rpc, show(error.text_for_models), {"error": error.code, **error.data})


def malformed(json_rpc_code: int, message: str) -> types.ErrorData:
    """For what was sent instead of a request."""
    return types.ErrorData(code=json_rpc_code, message=message, data={"error": Invalid.code})


def tool_result(family: Family[Any], error: AppError) -> types.CallToolResult:
    """As the family's specification wants it. Raises MCPError if that is a JSON-RPC error."""
    if family.errors == "json-rpc":
        raise rpc_error(error)
    structured = body(error)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=escape_in_json(json.dumps(structured, ensure_ascii=False)))],
        structured_content=structured,
        is_error=True,
    )


@contextmanager
def rpc_errors(what: str) -> Iterator[None]:
    """Raise whatever goes wrong in the block as a JSON-RPC error."""
    try:
        yield
    except AppError as exc:
        raise rpc_error(exc) from exc
    except MCPError:
        raise
    except Exception as exc:  # the boundary: a bug is logged in full, and the client sees no details
        raise rpc_error(log_bug(what)) from exc


@contextmanager
def parameter_errors() -> Iterator[None]:
    """Raise the SDK's errors about a request's parameters in the form of our errors about arguments."""
    try:
        yield
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        field = shorten(".".join(str(part) for part in first["loc"]))
        raise rpc_error(Invalid(f"{field}: {sentence(first)}.", field=field)) from exc
    except MCPError as exc:
        if exc.error.code == types.INVALID_PARAMS and not exc.error.data:
            raise rpc_error(Invalid("No request is answered before the handshake. Send initialize first.")) from exc
        raise


def log_bug(what: str) -> Unavailable:
    """Log the current exception in full; the error for the caller has no details of it."""
    log.exception("%s failed", what)
    return Unavailable(
        "The server failed here, and its log says why. The request may or may not have been carried out."
    )


# HTTP


def refusal(error: AppError) -> JSONResponse:
    """For MCP clients, before MCP is reached."""
    headers = _retry_after(error.data)
    if isinstance(error, KeyRefused):
        why = "" if error.code == "missing_bearer" else f', error="invalid_token", error_description="{error.code}"'
        headers["WWW-Authenticate"] = f'Bearer realm="memory-mcp"{why}'
    return JSONResponse(body(error), wire_codes(error).http, headers)


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    type: str = Field("about:blank", description="Always about:blank: `error` is the code to go by.")
    title: str
    status: int
    detail: str = Field(description="What is wrong and what to do next, for people.")
    error: str = Field(description="A code that programs can rely on.")
    data: dict[str, Any] = Field({}, description="What goes with the code, such as the field to blame.")


def problem(error: AppError, status: int | None = None) -> JSONResponse:
    """For people, over REST."""
    _log_unusable(error)
    status = status or wire_codes(error).http
    found = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.text_for_people,
        error=error.code,
        data=error.data,
    )
    return JSONResponse(found.model_dump(), status, _retry_after(error.data), MEDIA_TYPE)


def _retry_after(data: dict[str, Any]) -> dict[str, str]:
    return {"Retry-After": str(data["retry_after"])} if "retry_after" in data else {}
