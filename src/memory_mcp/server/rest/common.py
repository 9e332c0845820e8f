"""Shared by all routes."""

from typing import Any

from fastapi import Response

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import Forbidden
from memory_mcp.server.error_encoding import Problem


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem} for status in statuses}


async def unstored(response: Response) -> None:
    """Forbid caches to store the answer: it may contain a key."""
    response.headers["Cache-Control"] = "no-store"


def require(person: Caller, family: str, scope: Scope) -> None:
    person.require(scope)
    if family not in person.families:
        raise Forbidden(f"This server has no {family} now: --families leaves them out.")
