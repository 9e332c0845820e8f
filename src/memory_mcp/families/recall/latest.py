"""What was written last, over every family."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.errors import AppError
from memory_mcp.families.family import LastWrite

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True)
class Latest:
    writes: list[tuple[str, LastWrite]]  # each with its family, the last first
    incomplete: dict[str, str]  # why a family could not be read


def latest(app: "App", caller: Caller, limit: int, only: str | None = None) -> Latest:
    """Of all families, or of one. One that cannot be read keeps no other from being."""
    asking: dict[str, Callable[[], list[LastWrite]]] = {
        "vault": lambda: app.vault.last_written(caller, limit),
        "notes": lambda: app.notes.last_written(caller, limit),
        "stores": lambda: app.stores.last_written(caller, limit),
        "graph": lambda: app.graph.last_written(caller, limit),
        "portals": lambda: app.portals.last_written(caller),
    }
    writes: list[tuple[str, LastWrite]] = []
    incomplete = {}
    for family, ask in asking.items():
        if family in caller.families and only in (None, family):
            try:
                writes += [(family, LastWrite(one.ref, one.title, _at(one))) for one in ask()]
            except AppError as exc:
                incomplete[family] = exc.public_message
    writes.sort(key=lambda written: written[1].at, reverse=True)
    return Latest(writes[:limit], incomplete)


def _at(one: LastWrite) -> str:
    """All in one form, so that they can be compared."""
    try:
        return precise_stamp(instant(one.at))
    except ValueError:  # a file may say anything of itself
        return ""
