"""Counts of every family, for Home and `memory-mcp stats`."""

from collections.abc import Mapping
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError
from memory_mcp.families.family import OpenFamily


def counts_by_family(families: Mapping[str, OpenFamily[Any]], caller: Caller) -> dict[str, Any]:
    """Counts by family, or the error of a family that cannot be read. Reads only stored counts."""
    return {
        name: _counts(one, caller) for name, one in families.items() if one.family.counts and name in caller.families
    }


def _counts(one: OpenFamily[Any], caller: Caller) -> dict[str, Any]:
    try:
        return dict(one.family.counts(one.operations, caller)) if one.family.counts else {}
    except AppError as exc:
        return {"error": exc.public_message}
