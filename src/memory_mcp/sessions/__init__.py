"""Sessions: connected clients, the session of each call, and the cleanup when a session ends."""

from memory_mcp.sessions.clients import Clients, addresses
from memory_mcp.sessions.model import Client, Connection, Session, Transport
from memory_mcp.sessions.operations import Sessions
from memory_mcp.sessions.servers import Servers

__all__ = ["Client", "Clients", "Connection", "Servers", "Session", "Sessions", "Transport", "addresses"]
