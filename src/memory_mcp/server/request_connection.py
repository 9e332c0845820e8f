"""The TCP connection that an HTTP request came by. A server over stdio imports this, so it imports no web server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memory_mcp.errors import Unavailable

if TYPE_CHECKING:
    from memory_mcp.server.connections import LimitedProtocol

CONNECTION = "memory_mcp.tcp"  # where the state of a request's scope has its connection
RETRY_AFTER_S = 5


def connection_of(scope: Mapping[str, Any]) -> "LimitedProtocol | None":
    """None for a request that came by no connection, such as one over stdio."""
    found: LimitedProtocol | None = scope.get("state", {}).get(CONNECTION)
    return found


def confirm(scope: Mapping[str, Any], user: str) -> None:
    """Count the connection of this request for a user. Raises Unavailable if the user has too many."""
    connection = connection_of(scope)
    if connection and not connection.confirm(user):
        raise Unavailable("You have too many connections open. Close some, then try again.", retry_after=RETRY_AFTER_S)
    check_unread(scope, user)


def disconnect(scope: Mapping[str, Any]) -> None:
    """Close the connection of this request, whose answer has begun and will not be completed."""
    connection = connection_of(scope)
    if connection and connection.cycle is not None:
        connection.cycle.disconnected = True
        connection.transport.close()


def check_unread(scope: Mapping[str, Any], user: str) -> None:
    """Raises Unavailable if too many bytes of answers wait for the user to read them."""
    connection = connection_of(scope)
    if connection and connection.config.connections.has_too_much_unread(user):
        raise Unavailable("You have not read your last answers. Read them, then try again.", retry_after=RETRY_AFTER_S)


@contextmanager
def unread(scope: Mapping[str, Any], user: str, count: int) -> Iterator[None]:
    """Count bytes that wait for the user to read them, before they are written to a connection."""
    connection = connection_of(scope)
    counts = connection.config.connections if connection else None
    if counts:
        counts.add_unread(user, count)
    try:
        yield
    finally:
        if counts:
            counts.add_unread(user, -count)


def is_closing(scope: Mapping[str, Any]) -> bool:
    """Whether the client of this request has disconnected, or is being disconnected."""
    connection = connection_of(scope)
    return connection is not None and (connection.is_refused or connection.transport.is_closing())
