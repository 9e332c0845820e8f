"""The graph family: how to open it, and its functions for recall, Home and references."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.caller import Caller
from memory_mcp.engines.sqlite import Database
from memory_mcp.families.context import Context
from memory_mcp.families.family import Family
from memory_mcp.families.graph import references
from memory_mcp.families.graph.databases import ProjectDatabases, ProjectRows
from memory_mcp.families.graph.files import ProjectFiles
from memory_mcp.families.graph.operations import Graph
from memory_mcp.families.graph.schema import PROJECT_FILE, REGISTRY_FILE

if TYPE_CHECKING:
    from memory_mcp.families.maintenance import FamilyMaintenance


def _open(context: Context) -> Graph:
    graph = context.close_later(Graph(_databases(context), context.sessions, context.changes))
    context.before_close(graph.index_merge.merge)
    return graph


def _databases(context: Context) -> ProjectDatabases:
    if context.postgres:
        return ProjectRows(context.user_databases(REGISTRY_FILE), context.parted_databases(PROJECT_FILE))
    return ProjectFiles(context.tenants(REGISTRY_FILE), partial(_open_project, context))


def _open_project(context: Context, path: Path, lock: Path, make: bool) -> Database:
    return context.open_file(PROJECT_FILE, path, missing="create once" if make else "refuse", lock=lock)


def _counts(graph: Graph, caller: Caller) -> dict[str, int]:
    sizes = list(graph.counts(caller))
    return {"projects": len(sizes), "entities": sum(sizes)}


def _load_maintenance() -> "FamilyMaintenance[Graph]":
    from memory_mcp.families.graph.maintenance import MAINTENANCE  # not needed at the start of a server

    return MAINTENANCE


graph = Family[Graph](
    name="graph",
    purpose="a knowledge graph per project; name the `project` in each call, or make one active first",
    main_tools=(
        *("create_project", "switch_project", "create_entities", "add_observations", "create_relations"),
        *("search_nodes", "open_nodes", "read_graph"),
    ),
    errors="tool-result",
    uri_prefixes=(),
    open=_open,
    maintenance=_load_maintenance,
    databases=(REGISTRY_FILE, PROJECT_FILE),
    spells_out_bounds=True,
    prepare=lambda graph, users: graph.open_local(),
    counts=_counts,
    last_writes=Graph.last_written,
    references=references.REFERENCES,
    journals=Graph.journals,
    sizes=Graph.sizes,
    groups=Graph.groups,
)
