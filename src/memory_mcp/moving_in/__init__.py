"""Moving in from what people use today: foreign files are read here, and written through the rooms."""

from memory_mcp.moving_in.model import FORMATS, Move, Report
from memory_mcp.moving_in.operations import MovingIn

__all__ = ["FORMATS", "Move", "MovingIn", "Report"]
