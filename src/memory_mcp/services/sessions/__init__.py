"""Sessions: connected clients, the session of each call, and the cleanup when a session ends."""

from memory_mcp.services.sessions.choices import SessionChoices
from memory_mcp.services.sessions.clients import Clients, ServerAddress, addresses, by_server
from memory_mcp.services.sessions.leases import LeasedServers
from memory_mcp.services.sessions.model import Client, Connection, Session, Transport
from memory_mcp.services.sessions.operations import Sessions
from memory_mcp.services.sessions.servers import RunningServer, ServerRegistry, Servers

__all__ = [
    "Client",
    "Clients",
    "Connection",
    "LeasedServers",
    "RunningServer",
    "ServerAddress",
    "ServerRegistry",
    "Servers",
    "Session",
    "SessionChoices",
    "Sessions",
    "Transport",
    "addresses",
    "by_server",
]
