"""What servers send each other: the route, the keys of an answer's lines, and errors."""

from collections.abc import Mapping
from typing import Any

from memory_mcp.errors import (
    AppError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    Unavailable,
)

PATH = "/internal/portals"
CONTENT_TYPE = "application/x-ndjson"  # of an answer
MAX_BODY_BYTES = 8 * 1024 * 1024  # a call of a client has 4 MiB, and numbers may be longer when they are written again
HEARTBEAT_S = 0.5  # between two lines while a call runs

# Each line of an answer is an object with one of these keys, or an empty one. The last one has an answer or an error.
PROGRESS, ANSWER, ERROR = "progress", "answer", "error"

_KINDS: tuple[type[AppError], ...] = (Invalid, NotFound, Conflict, Forbidden, RateLimited, Unavailable)


def encode_error(error: AppError) -> dict[str, Any]:
    """Without what only the owner of this server may know."""
    kind = next((one for one in _KINDS if isinstance(error, one)), Unavailable)
    return {
        "kind": kind.__name__,
        "message": error.public_message,
        "code": error.code,
        "hint": error.hint,
        "people_hint": error.people_hint,
        "data": error.data,
    }


def decode_error(sent: Mapping[str, Any]) -> AppError:
    kind = next((one for one in _KINDS if one.__name__ == sent["kind"]), Unavailable)
    error = kind.__new__(kind)  # subclasses take other arguments
    texts = {name: sent[name] for name in ("code", "hint", "people_hint")}
    AppError.__init__(error, sent["message"], **texts, **sent["data"])
    return error
