"""The rooms that are exported and imported, whoever has opened them."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from memory_mcp.graph import Graph
    from memory_mcp.notes import Notes
    from memory_mcp.portals.operations import Portals
    from memory_mcp.stores import Stores
    from memory_mcp.vault import Vault


class Rooms(Protocol):
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
