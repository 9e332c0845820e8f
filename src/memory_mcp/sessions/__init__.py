"""Sessions: who is connected, which session a call belongs to, and what goes when a session ends."""

from memory_mcp.sessions.model import Connection, Session
from memory_mcp.sessions.operations import Sessions

__all__ = ["Connection", "Session", "Sessions"]
