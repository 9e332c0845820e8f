"""Maintenance: backup, restore, doctor, export, migrate. It spans the families; users run it in a shell."""

from memory_mcp.maintenance.backup import Backup
from memory_mcp.maintenance.doctor import Doctor
from memory_mcp.maintenance.exports import Export
from memory_mcp.maintenance.imports import read_export
from memory_mcp.maintenance.layout import Layout
from memory_mcp.maintenance.migration import MigrationRun
from memory_mcp.maintenance.restore import Restore, finish_restore

__all__ = ["Backup", "Doctor", "Export", "Layout", "MigrationRun", "Restore", "finish_restore", "read_export"]
