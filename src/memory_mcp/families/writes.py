"""What a family declares of its journals of writes, so that people can review and undo writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory_mcp.write_journal.undo import Items

if TYPE_CHECKING:
    from memory_mcp.engines.transactions import Read, Write


@dataclass(frozen=True)
class ItemShown:
    """What a person sees of an item of a journal."""

    ref: str  # of the memory, which may be deleted
    title: str


class ShownItems(Items, Protocol):
    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        """As many as can be described."""


@dataclass(frozen=True)
class Journal:
    """The writes in one database of a user."""

    items: ShownItems
    read: Callable[[], AbstractContextManager[Read]]
    write: Callable[[Sequence[str]], AbstractContextManager[Write]]  # to undo these items
    group: str = ""  # its project, if the family has a database for each
    publish: Callable[[Sequence[str]], None] = lambda items: None  # called when items were undone
    can_undo: bool = True  # False: its writes are only listed
