"""The size limits of answers to a model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Generic, TypeVar

from memory_mcp.families.family import within_budget
from memory_mcp.families.notes.model import Edge, Link, Links, Neighbourhood, Node, NoteHit, NoteSummary
from memory_mcp.families.writes import MAX_ORIGIN_CHARS

T = TypeVar("T")

EDGE_BYTES = 100  # as JSON


def size(item: NoteHit | NoteSummary) -> int:
    """Its approximate size as JSON, in bytes."""
    return len(json.dumps([item.title, item.snippet, item.tags], ensure_ascii=False).encode()) + 300 + MAX_ORIGIN_CHARS


def metadata_json(metadata: Mapping[str, object]) -> bytes:
    """The text whose size is limited."""
    return json.dumps(metadata, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Cut(Generic[T]):
    """The part of a list that one answer shows."""

    shown: list[T]
    next_offset: int | None  # None: there are no more
    notice: str | None  # if items were left out


def cut(items: Sequence[T], size: Callable[[T], int], *, offset: int, total: int, limit: int | None = None) -> Cut[T]:
    """As many items from `offset` on as fit one answer. `limit`: how many were requested; None: all."""
    shown = list(within_budget(items, size))
    reached = offset + len(shown)
    next_offset = reached if shown and reached < total else None
    missing = (total if limit is None else min(total, offset + limit)) - reached
    return Cut(shown, next_offset, _notice(missing, "offset", reached) if next_offset and missing > 0 else None)


def _notice(missing: int, argument: str, next_offset: int) -> str:
    return f"{missing} more would be too long to show at once. Go on with {argument} {next_offset}."


def cut_links(found: Links, offset: int) -> Links:
    """As many of each kind of link as fit one answer."""
    rows = list(zip_longest(found.outgoing, found.incoming, found.dangling))
    shown = len(within_budget(rows, lambda row: sum(_link_size(one) for one in row if one)))
    reached = offset + shown
    missing = sum(max(0, total - reached) for total in vars(found.total).values())
    return replace(
        found,
        outgoing=found.outgoing[:shown],
        incoming=found.incoming[:shown],
        dangling=found.dangling[:shown],
        next_offset=reached if shown and missing else None,
        notice=_notice(missing, "links_offset", reached) if shown and missing else None,
    )


def _link_size(link: Link | str) -> int:
    return 4 + len(link.encode()) if isinstance(link, str) else 80 + len(link.title.encode())


def cut_neighbors(found: Neighbourhood, offset: int, total: int) -> Neighbourhood:
    """As many of the notes from `offset` on as fit, nearest first. A link is shown with the later of its two ends, so
    that all pages together have every link once."""
    links: dict[str, list[Edge]] = {node.id: [] for node in found.nodes}
    position = {node.id: number for number, node in enumerate(found.nodes)}
    for edge in found.edges:
        later = max(edge.source_id, edge.target_id, key=lambda id_: position[id_])
        links[later].append(edge)  # it is shown once both its ends are

    def cost(node: Node) -> int:
        return 45 + len(node.title.encode()) + EDGE_BYTES * len(links[node.id])

    part = cut(found.nodes[offset:], cost, offset=offset, total=total)
    is_end_of_count = part.next_offset is None and found.truncated
    return Neighbourhood(
        nodes=part.shown,
        edges=found.edges if part.shown == found.nodes else [edge for node in part.shown for edge in links[node.id]],
        truncated=part.next_offset is not None or found.truncated,
        total=total,
        next_offset=part.next_offset,
        notice=f"There are more than {total}, which are the nearest. Ask for a lower depth."
        if is_end_of_count
        else part.notice,
    )
