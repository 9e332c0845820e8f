"""What answers cost a model, and where they are cut."""

import json
from collections.abc import Mapping, Sequence

from memory_mcp.families import within_budget
from memory_mcp.notes.model import Edge, Hit, Neighbourhood, Node, Slim

EDGE = 100  # bytes of JSON


def size(item: Hit | Slim) -> int:
    """About how many bytes of JSON it makes."""
    return len(json.dumps([item.title, item.snippet, item.tags], ensure_ascii=False).encode()) + 300


def metadata_size(metadata: Mapping[str, object]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False).encode())


def left_out(items: Sequence[object], shown: Sequence[object], advice: str) -> str | None:
    if len(shown) == len(items):
        return None
    return f"{len(items) - len(shown)} more would be too long to show at once. {advice}"


def within_means(found: Neighbourhood) -> Neighbourhood:
    """As many notes as fit with the links between them, the nearest first."""
    links: dict[str, list[Edge]] = {node.id: [] for node in found.nodes}
    place = {node.id: number for number, node in enumerate(found.nodes)}
    for edge in found.edges:
        later = max(edge.source_id, edge.target_id, key=lambda id_: place[id_])
        links[later].append(edge)  # it is shown once both its ends are

    def cost(node: Node) -> int:
        return 45 + len(node.title.encode()) + EDGE * len(links[node.id])

    shown = list(within_budget(found.nodes, cost))
    if len(shown) == len(found.nodes):
        return found
    return Neighbourhood(shown, [edge for node in shown for edge in links[node.id]], True)
