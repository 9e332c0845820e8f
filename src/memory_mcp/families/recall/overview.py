"""How much there is, in every family."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError

if TYPE_CHECKING:
    from memory_mcp.app import App


def overview(app: "App", caller: Caller) -> dict[str, Any]:
    """Counts by family. A family that cannot be read says why instead. Nothing that is kept is read for it."""
    counting: dict[str, Callable[[], dict[str, Any]]] = {
        "vault": lambda: {"memories": app.vault.count(caller)},
        "notes": lambda: _notes(app, caller),
        "stores": lambda: _summed("stores", "memories", app.stores.counts(caller)),
        "graph": lambda: _summed("projects", "entities", app.graph.counts(caller)),
        "portals": lambda: _portals(app, caller),
    }
    return {family: _told(count) for family, count in counting.items() if family in caller.families}


def _told(count: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return count()
    except AppError as exc:
        return {"error": exc.public_message}


def _summed(groups: str, members: str, counts: Iterable[int]) -> dict[str, Any]:
    sizes = list(counts)
    return {groups: len(sizes), members: sum(sizes)}


def _notes(app: "App", caller: Caller) -> dict[str, Any]:
    totals = app.notes.totals(caller)
    return {
        "notes": totals.notes,
        "namespaces": totals.namespaces,
        "embedded": totals.embedded,
        "waiting": totals.waiting,
    }


def _portals(app: "App", caller: Caller) -> dict[str, Any]:
    described = [app.portals.described(caller, folder.address)[1] for folder in app.portals.all(caller)]
    return {
        "portals": len(described),
        "tables": sum(len(tables) for tables in described),
        "rows": sum(table.rows for tables in described for table in tables),
    }
