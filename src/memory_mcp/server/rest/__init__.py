"""REST for signed-in users of the web app."""

from memory_mcp.server.rest import (
    conversations,
    downloads,
    events,
    imports,
    lists,
    memories,
    people,
    review,
    routes,
    selections,
    store_files,
    sync,
    tools,
    writes,
)
from memory_mcp.server.rest.openapi import describe

ROUTERS = (*routes.ROUTERS, sync.router)

__all__ = [
    "ROUTERS",
    "conversations",
    "describe",
    "downloads",
    "events",
    "imports",
    "lists",
    "memories",
    "people",
    "review",
    "selections",
    "store_files",
    "tools",
    "writes",
]
