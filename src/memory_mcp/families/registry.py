"""The list of families. A new one is added to STORAGE_FAMILIES."""

from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.families.family import Family
from memory_mcp.families.graph.tools import graph
from memory_mcp.families.notes.tools import notes
from memory_mcp.families.portals.tools import portals
from memory_mcp.families.recall.family import recall_over
from memory_mcp.families.stores.tools import stores
from memory_mcp.families.vault.tools import vault

STORAGE_FAMILIES: tuple[Family[Any], ...] = (vault, notes, stores, graph, portals)


def with_recall(storing: Iterable[Family[Any]]) -> dict[str, Family[Any]]:
    """By name, these families and the search over them."""
    families = tuple(storing)
    return {family.name: family for family in (*families, recall_over(families))}


FAMILIES = with_recall(STORAGE_FAMILIES)
CONFINABLE = tuple(name for name, family in FAMILIES.items() if family.is_confinable)
"""The families that a key confined to a namespace can open."""


def select(families: dict[str, Family[Any]], names: Sequence[str]) -> dict[str, Family[Any]]:
    """The families of these names, or all if there are no names. Raises Invalid for a name that no family has."""
    if unknown := [name for name in names if name not in families]:
        raise Invalid(f"No family is called {unknown[0]!r}. Use any of: {', '.join(families)}.", field="families")
    return {name: family for name, family in families.items() if name in (names or families)}


def confinable(names: Sequence[str]) -> Sequence[str]:
    """The families of a key that is confined to a namespace; without names all that can be. Raises Invalid for one that
    has no namespaces."""
    if unfit := [name for name in names if name not in CONFINABLE]:
        raise Invalid(
            f"{unfit[0]} has no namespaces, so a confined key cannot open it. Use any of: {', '.join(CONFINABLE)}.",
            field="families",
        )
    return names or CONFINABLE
