"""Recall: one search over all families."""

from memory_mcp.families.recall.operations import Recall

__all__ = ["Recall"]
