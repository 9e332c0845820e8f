"""Moving in from what people use today: foreign files are read here, and written through the rooms."""

from memory_mcp.importers.model import FORMATS, ImportPlan, Report
from memory_mcp.importers.operations import Importers

__all__ = ["FORMATS", "ImportPlan", "Importers", "Report"]
