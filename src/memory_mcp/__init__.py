"""Memory MCP: the memory every AI agent plugs in."""

__version__ = "0.1.0"
DISTRIBUTION = "five-memories"  # its name on PyPI, where memory-mcp is another project
