"""Conversations with AI clients: hooks give them memories, and keep what was said. See docs/hooks.md."""

from memory_mcp.conversations.operations import Conversations, Families

__all__ = ["Conversations", "Families"]
