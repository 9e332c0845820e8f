"""The rooms that are exported and imported, whoever has opened them."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from memory_mcp.families.graph import Graph
    from memory_mcp.families.notes import Notes
    from memory_mcp.families.portals.operations import Portals
    from memory_mcp.families.stores import Stores
    from memory_mcp.families.vault import Vault


class Families(Protocol):
    @property
    def vault(self) -> "Vault": ...
    @property
    def notes(self) -> "Notes": ...
    @property
    def stores(self) -> "Stores": ...
    @property
    def graph(self) -> "Graph": ...
    @property
    def portals(self) -> "Portals": ...
