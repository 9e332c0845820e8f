"""The composition of the server: the only code that constructs its parts."""

from memory_mcp.app.access import Access, open_access
from memory_mcp.app.composition import App, embedding_options, open_app
from memory_mcp.app.hooks import answer_hook, resume_captures
from memory_mcp.app.hub import HubApp, open_hub
from memory_mcp.app.maintenance import (
    Maintenance,
    backup_of,
    data_layout,
    open_cells,
    open_engine_move,
    open_maintenance,
)
from memory_mcp.app.portal_servers import claim_portals, open_portal_servers
from memory_mcp.app.postgres import HOME_NAME

__all__ = [
    "HOME_NAME",
    "Access",
    "App",
    "HubApp",
    "Maintenance",
    "answer_hook",
    "backup_of",
    "claim_portals",
    "data_layout",
    "embedding_options",
    "open_access",
    "open_app",
    "open_cells",
    "open_engine_move",
    "open_hub",
    "open_maintenance",
    "open_portal_servers",
    "resume_captures",
]
