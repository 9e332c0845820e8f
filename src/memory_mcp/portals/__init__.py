"""Portals: tables and SQL, each portal in one folder and, exported, in one portable file."""

from memory_mcp.portals.operations import Portals

__all__ = ["Portals"]
