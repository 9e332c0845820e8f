"""Notes: linked memories in namespaces, found by words and by meaning."""

from memory_mcp.families.notes.operations import Notes

__all__ = ["Notes"]
