"""Writing ourselves into the configuration of MCP clients, and taking that back."""

from memory_mcp.connecting.model import CLIENTS, Client, Http, Machine, Stdio
from memory_mcp.connecting.operations import Connections

__all__ = ["CLIENTS", "Client", "Connections", "Http", "Machine", "Stdio"]
