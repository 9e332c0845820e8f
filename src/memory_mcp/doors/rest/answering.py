"""What all routes share."""

from typing import Any

from fastapi import Response

from memory_mcp.doors.problems import Problem


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem} for status in statuses}


def unstored(response: Response) -> None:
    """Nobody keeps a copy on the way: answers may hold a key."""
    response.headers["Cache-Control"] = "no-store"
