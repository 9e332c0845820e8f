"""Imports from other memory tools: their files are read here and written through the families."""

from memory_mcp.importers.model import FORMATS, ImportPlan, Report
from memory_mcp.importers.operations import Importers

__all__ = ["FORMATS", "ImportPlan", "Importers", "Report"]
