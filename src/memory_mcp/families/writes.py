"""What a family declares of its journals of writes, so that people can review and undo writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory_mcp.services.write_journal import Action, ItemUndo, Writer, WriteRecord, WriteTable, undo
from memory_mcp.services.write_journal.undo import Items, last_writers

if TYPE_CHECKING:
    from memory_mcp.caller import Caller
    from memory_mcp.engines.transactions import Read, Write

MAX_NAMED_WRITERS = 10  # of one memory, in an origin
MAX_ORIGIN_CHARS = 60  # of a memory that is one of many
NO_UNDO = "its writes cannot be undone"


@dataclass(frozen=True)
class ItemShown:
    """What a person sees of an item of a journal."""

    ref: str  # of the memory, which may be deleted
    title: str


class ShownItems(Protocol):
    """The items of a journal, for people."""

    @property
    def table(self) -> WriteTable: ...

    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        """As many as can be described."""

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        """By reference, the items that a memory consists of. References of other journals are left out."""

    def writers(self, tx: Read, items: Iterable[str]) -> dict[str, list[Writer]]:
        """Who wrote what each item is now. Items without a record are left out."""


class LastWriters:
    """Items that are what their last writer made of them."""

    table: WriteTable

    def writers(self, tx: Read, items: Iterable[str]) -> dict[str, list[Writer]]:
        return {item: [writer] for item, writer in last_writers(tx, self.table, items).items()}


def origins(tx: Read, items: ShownItems, refs: Sequence[str]) -> dict[str, str]:
    """Who wrote each memory as it is, in a few words. Memories without a record are left out."""
    return origins_of(tx, items, items.items_of(tx, refs))


def origins_of(tx: Read, items: ShownItems, items_by_memory: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The same for memories whose items are known. The keys may be any names of the memories."""
    writers = items.writers(tx, {item for own in items_by_memory.values() for item in own})
    names = {id(one): str(one) for several in writers.values() for one in several}  # few programs wrote most of it
    found = {
        ref: list(dict.fromkeys([names[id(one)] for item in own for one in writers.get(item, ())]))
        for ref, own in items_by_memory.items()
    }
    return {ref: _joined(several) for ref, several in found.items() if several}


def _joined(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED_WRITERS
    return "; ".join([*names[:MAX_NAMED_WRITERS], *([f"{more} more"] if more > 0 else [])])


def short_origins(tx: Read, items: ShownItems, refs: Sequence[str]) -> dict[str, str]:
    """The same for lists: a client chooses its name, so it may be long."""
    return {ref: shorten_origin(text) for ref, text in origins(tx, items, refs).items()}


def shorten_origin(text: str) -> str:
    return text if len(text) <= MAX_ORIGIN_CHARS else f"{text[: MAX_ORIGIN_CHARS - 1]}…"


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


class JournalUndo(Protocol):
    """How writes of a journal are undone."""

    def plan(self, chosen: Mapping[str, set[int]], undone: set[str]) -> list[ItemUndo]:
        """What an undo of the chosen records, by item, would do now. `undone` has the items of earlier plans, and gets
        those of this one."""

    def run(self, caller: Caller, chosen: Mapping[str, set[int]]) -> list[ItemUndo]:
        """Undo the chosen records, record that, and notify clients."""

    def undone(self, tx: Read, records: Sequence[WriteRecord]) -> set[int]:
        """The numbers of the records that are undone, among these and maybe others."""


@dataclass(frozen=True)
class StateUndo:
    """Gives items of a database their former states, in one transaction."""

    items: Items
    read: Callable[[], AbstractContextManager[Read]]
    write: Callable[[Sequence[str]], AbstractContextManager[Write]]  # to undo these items
    publish: Callable[[Sequence[str]], None] = lambda items: None  # called when items were undone

    def plan(self, chosen: Mapping[str, set[int]], undone: set[str]) -> list[ItemUndo]:
        with self.read() as tx:
            steps, left = undo.plan(tx, self.items, chosen, undone)
        return [*map(undo.outcome, steps), *undo.partly_left(steps), *left]

    def run(self, caller: Caller, chosen: Mapping[str, set[int]]) -> list[ItemUndo]:
        with self.write(list(chosen)) as tx:
            done = undo.run(tx, caller, self.items, chosen)
        if changed := [one.item for one in done if one.outcome != "left"]:
            self.publish(changed)
        return done

    def undone(self, tx: Read, records: Sequence[WriteRecord]) -> set[int]:
        histories = self.items.table.history(tx, list(dict.fromkeys(one.item for one in records)))
        return {number for history in histories.values() for number in undo.undone_numbers(history)}


@dataclass(frozen=True)
class Journal:
    """The writes in one database of a user."""

    items: ShownItems
    read: Callable[[], AbstractContextManager[Read]]
    undo: JournalUndo | None  # None: its writes are only listed
    group: str = ""  # its project, if the family has a database for each
    may_hold: Callable[[str], bool] = lambda ref: True  # False: this reference is of another journal
    why_no_undo: str = NO_UNDO  # for people
