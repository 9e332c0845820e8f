"""Stores: folders of markdown files that agents write and people read, edit and commit."""

from memory_mcp.families.stores.operations import Stores

__all__ = ["Stores"]
