"""Calls that one server forwards to another one on the same database: a POST with a signed token, answered by lines of
JSON, so that progress comes back and either side notices when the other is gone."""

from memory_mcp.services.server_calls.client import CalledServer, ServerClient
from memory_mcp.services.server_calls.protocol import (
    ANSWER,
    CONTENT_TYPE,
    ERROR,
    HEARTBEAT_S,
    MAX_BODY_BYTES,
    PATH,
    PROGRESS,
    decode_error,
    encode_error,
)
from memory_mcp.services.server_calls.tokens import TokenRefused, VerifiedToken, sign, verify

__all__ = [
    "ANSWER",
    "CONTENT_TYPE",
    "ERROR",
    "HEARTBEAT_S",
    "MAX_BODY_BYTES",
    "PATH",
    "PROGRESS",
    "CalledServer",
    "ServerClient",
    "TokenRefused",
    "VerifiedToken",
    "decode_error",
    "encode_error",
    "sign",
    "verify",
]
