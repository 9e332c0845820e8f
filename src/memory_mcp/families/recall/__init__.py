"""Recall: one search over everything the families keep."""

from memory_mcp.families.recall.operations import Recall

__all__ = ["Recall"]
