"""Upkeep: backup, restore, doctor, export, migrate. It spans the families and has no tools: people ask for it in a
shell."""

from memory_mcp.upkeep.backup import Backup
from memory_mcp.upkeep.doctor import Doctor
from memory_mcp.upkeep.exporting import Exporting
from memory_mcp.upkeep.importing import read_export
from memory_mcp.upkeep.layout import Kinds, Layout
from memory_mcp.upkeep.migrating import Migrating
from memory_mcp.upkeep.restore import Restore, finish_restore

__all__ = ["Backup", "Doctor", "Exporting", "Kinds", "Layout", "Migrating", "Restore", "finish_restore", "read_export"]
