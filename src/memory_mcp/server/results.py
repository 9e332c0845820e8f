"""How results and errors are told to an MCP client: the one place where every answer leaves."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import AppError, Invalid, Unavailable, Unusable
from memory_mcp.families.family import Family, Tool

log = logging.getLogger(__name__)


def result(tool: Tool, answer: Any, caller: Caller, given: Mapping[str, Any] | None) -> types.CallToolResult:
    structured = shown(tool, answer, caller, given)
    if is_narrowed(tool, caller):
        texts = [json.dumps(structured, ensure_ascii=False)]
    else:
        text = tool.answers.dump_json(answer, by_alias=True).decode()
        texts = [text, tool.summary(answer)] if tool.summary else [text]
    content = [types.TextContent(type="text", text=one) for one in texts]
    return types.CallToolResult(content=[*content], structured_content=structured)


def shown(tool: Tool, answer: Any, caller: Caller, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """An answer as this caller may see it: who may not read gets back what they sent, and what the tool declares."""
    structured: dict[str, Any] = tool.answers.dump_python(answer, mode="json", by_alias=True)
    if not is_narrowed(tool, caller):
        return structured
    sent, declared = given or {}, tool.without_read or ()
    return {
        name: value for name, value in structured.items() if name in declared or (name in sent and sent[name] == value)
    }


def is_narrowed(tool: Tool, caller: Caller) -> bool:
    return tool.without_read is not None and Scope.READ not in caller.scopes


def refusal(family: Family[Any], error: AppError) -> types.CallToolResult:
    """The family's way of saying no. Raises for families whose specification wants a JSON-RPC error."""
    if family.errors == "json-rpc":
        raise rpc_error(error)
    structured = {"error": error.error, "message": _told(error), "data": error.data}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=json.dumps(structured, ensure_ascii=False))],
        structured_content=structured,
        is_error=True,
    )


def _told(error: AppError) -> str:
    if isinstance(error, Unusable):  # the file is named here, and not to the caller
        log.warning("A call failed: %s", error.message)
    return error.public_message


def rpc_error(error: AppError) -> MCPError:
    code = types.INVALID_PARAMS if error.is_fixable_by_caller else types.INTERNAL_ERROR
    return MCPError(code, _told(error), {"error": error.error, **error.data})


@contextmanager
def rpc_errors(what: str) -> Iterator[None]:
    """Tell whatever goes wrong in the block as a JSON-RPC error."""
    try:
        yield
    except AppError as exc:
        raise rpc_error(exc) from exc
    except MCPError:
        raise
    except Exception as exc:  # the border: a bug is logged whole and told to nobody
        raise rpc_error(failure(what)) from exc


@contextmanager
def plain_parameters() -> Iterator[None]:
    """Tell what the SDK finds wrong with a request's parameters as we tell it of arguments."""
    try:
        yield
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise rpc_error(Invalid(f"{field}: {first['msg']}.", field=field)) from exc
    except MCPError as exc:
        if exc.error.code == types.INVALID_PARAMS and not exc.error.data:
            raise rpc_error(Invalid("This cannot be asked before the handshake. Send initialize first.")) from exc
        raise


def failure(what: str) -> Unavailable:
    """For a bug: log it whole, tell the caller nothing of our insides. Call from an except block."""
    log.exception("%s failed", what)
    return Unavailable("The server failed here, and its log says why. What you asked for may or may not be done.")
