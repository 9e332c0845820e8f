"""REST for a person who is signed in to the web app."""

from memory_mcp.doors.rest.description import describe
from memory_mcp.doors.rest.routes import ROUTERS

__all__ = ["ROUTERS", "describe"]
