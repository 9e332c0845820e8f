"""The command line: thin verbs over operations."""

from memory_mcp.cli.main import command_line

__all__ = ["command_line"]
