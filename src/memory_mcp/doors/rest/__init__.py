"""REST for a person who is signed in to the web app."""

from memory_mcp.doors.rest import downloads, events, lists, routes, syncing, tools
from memory_mcp.doors.rest.description import describe

ROUTERS = (*routes.ROUTERS, syncing.router)

__all__ = ["ROUTERS", "describe", "downloads", "events", "lists", "tools"]
