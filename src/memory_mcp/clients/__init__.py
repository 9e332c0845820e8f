"""Writing ourselves into the configuration of MCP clients, and taking that back."""

from memory_mcp.clients.model import CLIENTS, ClientProgram, Http, Machine, Stdio
from memory_mcp.clients.operations import ClientConfigurations

__all__ = ["CLIENTS", "ClientConfigurations", "ClientProgram", "Http", "Machine", "Stdio"]
