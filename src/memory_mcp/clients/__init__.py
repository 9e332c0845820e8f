"""Adds this server to the configuration of MCP clients, and removes it again."""

from memory_mcp.clients.model import CLIENTS, ClientProgram, Http, Machine, Stdio
from memory_mcp.clients.operations import ClientConfigurations

__all__ = ["CLIENTS", "ClientConfigurations", "ClientProgram", "Http", "Machine", "Stdio"]
