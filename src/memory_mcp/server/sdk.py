"""The private names of the MCP SDK that this server touches, all of them. Checked by tests on every upgrade."""

from collections.abc import Mapping
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = [
    "ReadStream",
    "RequestContext",
    "WriteStream",
    "begins_session",
    "connection",
    "end_session",
    "end_streams",
    "is_modern",
]

RequestContext = ServerRequestContext[Any, Any]


def connection(ctx: RequestContext) -> Connection:
    """The client's connection: with a handshake it lives as long as the client, without for one request."""
    return ctx.session._connection


async def end_session(manager: StreamableHTTPSessionManager, session_id: str) -> None:
    """End one Streamable HTTP session with its streams. A client that still uses its id gets 404 and reconnects."""
    if transport := manager._server_instances.get(session_id):
        await manager._discard_session(session_id, transport)


async def end_streams(manager: StreamableHTTPSessionManager) -> None:
    """End every open Streamable HTTP session, so that a shutdown does not wait for clients to disconnect."""
    for transport in list(manager._server_instances.values()):
        await transport.terminate()


def begins_session(headers: Mapping[str, str]) -> bool:
    """Whether a POST can only be a handshake: it names no session, and no protocol version without a handshake."""
    return "mcp-session-id" not in headers and headers.get("mcp-protocol-version") not in MODERN_PROTOCOL_VERSIONS


def is_modern(ctx: RequestContext) -> bool:
    """Whether the request is of the protocol version without a handshake (2026-07-28)."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
