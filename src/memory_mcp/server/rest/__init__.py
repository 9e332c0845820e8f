"""REST for signed-in users of the web app."""

from memory_mcp.server.rest import conversations, downloads, events, lists, memories, routes, store_files, sync, tools
from memory_mcp.server.rest.openapi import describe

ROUTERS = (*routes.ROUTERS, sync.router)

__all__ = ["ROUTERS", "conversations", "describe", "downloads", "events", "lists", "memories", "store_files", "tools"]
