"""A conversation that another server began: its setup is repeated, and so are requests that were not answered, where
that is safe. A write that may have happened is answered with that."""

import json
import logging
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memory_mcp.errors import Unavailable
from memory_mcp.server import error_encoding
from memory_mcp.server.json_lines import AnswerStream
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.shared.hello import Hello, LostRequest

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3  # of a request at servers that end before they answer it
SETUP_ID = "memory-mcp/setup/"  # of requests that the client does not see


def setup_lines(hello: Hello, answers: AnswerStream) -> list[bytes]:
    """The messages that set up the connection at the last server. Their answers are muted."""
    lines = []
    for number, message in enumerate(hello.setup):
        if not str(message.get("method")).startswith("notifications/"):
            message = {"id": f"{SETUP_ID}{number}", **message}
            answers.muted.add(message["id"])
        lines.append(json.dumps({"jsonrpc": "2.0", **message}).encode())
    return lines


async def lines_to_repeat(server: McpServer, hello: Hello, answers: AnswerStream) -> list[bytes]:
    """The unanswered requests to run again. The others are answered here."""
    repeated = []
    for lost in hello.lost:
        answer = _answer_without_repeating(server, lost)
        if answer is None:
            repeated.append(lost.line.encode())
        else:
            await answers.send(SessionMessage(answer))
    if hello.lost:
        counts = len(hello.lost), len(repeated)
        log.info("A client of another server continues here: %d unanswered requests, %d run again", *counts)
    return repeated


def _answer_without_repeating(
    server: McpServer, lost: LostRequest
) -> types.JSONRPCResponse | types.JSONRPCError | None:
    """None if the request is to be run again."""
    try:
        request = types.jsonrpc_message_adapter.validate_json(lost.line, by_name=False)
    except ValidationError:
        return None
    if not isinstance(request, types.JSONRPCRequest):
        return None
    tool = server.tool((request.params or {}).get("name")) if request.method == "tools/call" else None
    only_reads = tool is None or tool.reads_only
    is_repeatable = only_reads or (tool is not None and tool.idempotent)
    if is_repeatable and lost.attempts < MAX_ATTEMPTS:
        return None
    error = _given_up(may_have_happened=not only_reads) if is_repeatable else _lost_write()
    try:
        if tool is None:
            raise error_encoding.rpc_error(error)
        result = error_encoding.tool_result(server.app.families[tool.family], error)
    except MCPError as exc:
        return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=exc.error)
    return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=_dump(result))


def _dump(result: types.CallToolResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def _lost_write() -> Unavailable:
    return Unavailable(
        "The server ended while this call was under way, and another has taken over. The call may or may not have "
        "been carried out. Look at what is stored before you repeat it.",
        may_have_happened=True,
    )


def _given_up(*, may_have_happened: bool) -> Unavailable:
    return Unavailable(
        f"{MAX_ATTEMPTS} servers ended while this call was under way, so it was given up. "
        + ("It may have been carried out; repeating it changes nothing twice. " if may_have_happened else "")
        + "`memory-mcp doctor` checks the data, and server.log in the data directory says more.",
        may_have_happened=may_have_happened,
    )
