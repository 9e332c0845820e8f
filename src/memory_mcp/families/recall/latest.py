"""The last writes in all families."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.errors import AppError
from memory_mcp.families.family import LastWrite, OpenFamily


@dataclass(frozen=True)
class Latest:
    writes: list[tuple[str, LastWrite]]  # each with its family, the last first
    incomplete: dict[str, str]  # why a family could not be read


def latest(
    families: Mapping[str, OpenFamily[Any]],
    caller: Caller,
    limit: int,
    only: str | None = None,
    more: Iterable[tuple[str, LastWrite]] = (),
) -> Latest:
    """The last writes of all families, or of one, and `more` that others know of. A family that cannot be read does not
    stop the others."""
    writes = [(name, write) for name, write in more if name in caller.families and only in (None, name)]
    incomplete = {}
    for name, one in families.items():
        if one.family.last_writes and name in caller.families and only in (None, name):
            try:
                found = one.family.last_writes(one.operations, caller, limit)
                writes += [(name, LastWrite(write.ref, write.title, _at(write))) for write in found]
            except AppError as exc:
                incomplete[name] = exc.public_message
    writes.sort(key=lambda written: written[1].at, reverse=True)
    return Latest(writes[:limit], incomplete)


def _at(write: LastWrite) -> str:
    """The time in a form that can be compared."""
    try:
        return precise_stamp(instant(write.at))
    except ValueError:  # a file may have any text as its time
        return ""
