"""Analytics: how much is asked and kept, hour by hour, in bounded space."""

from memory_mcp.analytics.model import Coverage, Hour
from memory_mcp.analytics.operations import Analytics

__all__ = ["Analytics", "Coverage", "Hour"]
