"""Memory MCP: the memory every AI agent plugs in."""

__version__ = "0.1.0"
