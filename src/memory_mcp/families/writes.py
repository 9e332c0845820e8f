"""What a family declares of its journals of writes, so that people can review and undo writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory_mcp.services.write_journal import Action
from memory_mcp.services.write_journal.undo import Items, last_writers

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

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        """By reference, the items that a memory consists of. References of other journals are left out."""


def origins(tx: Read, items: ShownItems, refs: Sequence[str]) -> dict[str, str]:
    """Who last wrote each memory, in a few words. Memories without a record are left out."""
    found = items.items_of(tx, refs)
    writers = last_writers(tx, items.table, {item for own in found.values() for item in own})
    names = {ref: dict.fromkeys(str(writers[item]) for item in own if item in writers) for ref, own in found.items()}
    return {ref: "; ".join(several) for ref, several in names.items() if several}


@dataclass(frozen=True)
class MemoryWrite:
    """A write of one memory, or of a part of it."""

    at: str  # ISO 8601, to the millisecond
    action: Action
    origin: str  # who wrote, in a few words
    title: str  # of what was written
    is_undo: bool


def writes_of(tx: Read, items: ShownItems, ref: str, limit: int) -> list[MemoryWrite]:
    """The last writes of one memory, the newest first."""
    records = items.table.newest(tx, items.items_of(tx, [ref]).get(ref, []), limit)
    shown = items.shown(tx, list({one.item for one in records}))
    titles = {item: one.title for item, one in shown.items()}
    return [
        MemoryWrite(one.at, one.action, str(one.writer), titles.get(one.item, ""), one.undo_id is not None)
        for one in records
    ]


@dataclass(frozen=True)
class Journal:
    """The writes in one database of a user."""

    items: ShownItems
    read: Callable[[], AbstractContextManager[Read]]
    write: Callable[[Sequence[str]], AbstractContextManager[Write]]  # to undo these items
    group: str = ""  # its project, if the family has a database for each
    publish: Callable[[Sequence[str]], None] = lambda items: None  # called when items were undone
    may_hold: Callable[[str], bool] = lambda ref: True  # False: this reference is of another journal
    can_undo: bool = True  # False: its writes are only listed
