"""How much there is, in every family."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError
from memory_mcp.families import Groups

if TYPE_CHECKING:
    from memory_mcp.app import App


def overview(app: "App", caller: Caller) -> dict[str, Any]:
    """Counts by family. A family that cannot be read says why instead."""
    counting: dict[str, Callable[[], dict[str, Any]]] = {
        "vault": lambda: {"memories": _count(app.vault.groups, caller)[1]},
        "notes": lambda: _notes(app, caller),
        "stores": lambda: dict(zip(("stores", "memories"), _count(app.stores.groups, caller), strict=True)),
        "graph": lambda: dict(zip(("projects", "entities"), _count(app.graph.groups, caller), strict=True)),
        "portals": lambda: _portals(app, caller),
    }
    return {family: _told(count) for family, count in counting.items() if family in caller.families}


def _told(count: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return count()
    except AppError as exc:
        return {"error": exc.message}


def _count(groups: Groups, caller: Caller) -> tuple[int, int]:
    sizes = [len(group.versions()) for group in groups(caller)]
    return len(sizes), sum(sizes)


def _notes(app: "App", caller: Caller) -> dict[str, Any]:
    vectors, stats = app.notes.embed_stats(caller), app.notes.stats(caller, None)
    return {
        "notes": stats.total,
        "namespaces": len(stats.by_namespace),
        "embedded": vectors.total_with_embedding,
        "waiting": vectors.queue_size,
    }


def _portals(app: "App", caller: Caller) -> dict[str, Any]:
    described = [app.portals.described(caller, folder.address)[1] for folder in app.portals.all(caller)]
    return {
        "portals": len(described),
        "tables": sum(len(tables) for tables in described),
        "rows": sum(table.rows for tables in described for table in tables),
    }
