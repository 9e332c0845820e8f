"""Analytics: calls, errors and stored notes per hour, in bounded space."""

from memory_mcp.services.access.usage.model import Coverage, Hour
from memory_mcp.services.access.usage.operations import Analytics, by_day

__all__ = ["Analytics", "Coverage", "Hour", "by_day"]
