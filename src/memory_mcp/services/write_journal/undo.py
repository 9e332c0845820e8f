"""Undoing the writes of one journal. What was changed later by another writer is left alone and named.

An undo is a write like any other, so it can be undone, too. `WriteRecord.undoes` says which records it undid.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import AppError
from memory_mcp.services.write_journal.model import ItemUndo, ItemWrite, Writer, WriteRecord
from memory_mcp.services.write_journal.storage import WriteTable

NO_COPY = "no copy of its former state is kept"


class Items(Protocol):
    """The items of a journal."""

    @property
    def table(self) -> WriteTable: ...

    def digests(self, tx: Read, items: Sequence[str]) -> dict[str, str]:
        """Of the items that exist now."""

    def has_before(self, tx: Read, record: WriteRecord) -> bool:
        """Whether there is a copy of the state before a record that is no creation."""

    def before(self, tx: Read, record: WriteRecord) -> Any:
        """The state before a record that is no creation; None if there is no copy of it."""

    def refusal(self, tx: Read, item: str, undone: Collection[str], *, deletes: bool) -> str | None:
        """Why an item cannot be deleted or given a former state if all items of `undone` are undone."""

    def restore(self, tx: Write, caller: Caller, item: str, before: Any) -> ItemWrite:
        """Give an item a former state; None: delete it, softly if possible. Raises AppError if that is refused."""


@dataclass(frozen=True)
class Step:
    """How an item is undone."""

    item: str
    first: WriteRecord  # the first record that is undone
    deletes: bool  # or it gets the state before `first`, which is read when it is restored
    writes: int
    left: int = 0  # of the chosen writes, those that others followed
    left_why: str | None = None


def plan(tx: Read, items: Items, chosen: Mapping[str, set[int]], undone: set[str]) -> tuple[list[Step], list[ItemUndo]]:
    """The steps of an undo of the chosen records (by item), the newest first, and the items that are left alone.

    Reads no former states, which may be large. `undone` has the items of earlier plans, and gets those of this one.
    """
    histories = items.table.history(tx, list(chosen))
    digests = items.digests(tx, list(chosen))
    steps: list[Step] = []
    left: list[ItemUndo] = []
    for item, numbers in chosen.items():
        found = _plan_one(tx, items, histories[item], numbers, digests.get(item))
        if isinstance(found, Step):
            steps.append(found)
        elif found:
            left.append(found)
    steps.sort(key=lambda step: step.first.number, reverse=True)
    undone.update(step.item for step in steps)
    reasons = ((step.item, items.refusal(tx, step.item, undone, deletes=step.deletes)) for step in steps)
    refused = {item: why for item, why in reasons if why}
    undone.difference_update(refused)
    left += [ItemUndo(step.item, "left", step.writes, refused[step.item]) for step in steps if step.item in refused]
    return [step for step in steps if step.item not in refused], left


def run(tx: Write, caller: Caller, items: Items, chosen: Mapping[str, set[int]]) -> list[ItemUndo]:
    """Undo the chosen records, and record that."""
    steps, left = plan(tx, items, chosen, set())
    done: list[ItemUndo] = []
    for step in steps:
        try:
            with tx.savepoint():
                before = None if step.deletes else items.before(tx, step.first)
                write = items.restore(tx, caller, step.item, before)
                items.table.record(tx, caller, write, undoes=step.first.number)
        except AppError as exc:
            left.append(ItemUndo(step.item, "left", step.writes, exc.public_message))
        else:
            done.append(outcome(step))
    return [*done, *partly_left(steps), *left]


def undone_numbers(history: Iterable[WriteRecord]) -> set[int]:
    """The records of an item that are undone."""
    return {one.number for records in _effect_of(history).undos.values() for one in records}


def last_writers(tx: Read, table: WriteTable, items: Iterable[str]) -> dict[str, Writer]:
    """Who wrote what each item is now: after an undo, the writer before it. Items without a record are left out."""
    last, undone = table.last_writers(tx, items)
    histories = table.history(tx, undone)
    standing = {item: own[-1].writer for item, history in histories.items() if (own := _effect_of(history).current)}
    return last | standing


def outcome(step: Step) -> ItemUndo:
    return ItemUndo(step.item, "delete" if step.deletes else "restore", step.writes)


def partly_left(steps: Iterable[Step]) -> list[ItemUndo]:
    """The chosen writes that others followed before the ones that are undone."""
    return [ItemUndo(step.item, "left", step.left, step.left_why) for step in steps if step.left]


def _plan_one(
    tx: Read, items: Items, history: list[WriteRecord], numbers: set[int], now: str | None
) -> Step | ItemUndo | None:
    """None if all of it is undone already, or there is nothing to do."""
    item, last = history[-1].item, history[-1]
    effect = _effect_of(history)
    current, undos = effect.current, effect.undos
    numbers = _effective_choice(history, effect, numbers)
    if last.number in undos and last.number in numbers:  # the undo itself is undone
        latest, earlier = [last], []
    else:
        wanted = [one for one in current if one.number in numbers]
        if not wanted:
            return _undo_that_others_followed(history, undos, numbers)
        latest = _last_run(current, numbers)
        earlier = wanted[: len(wanted) - len(latest)]
    if not latest:
        return ItemUndo(item, "left", len(earlier), _changed_by(current, earlier[-1]))
    if now != last.after:
        return ItemUndo(item, "left", len(latest) + len(earlier), "it was changed later by another program")
    if latest[0].action == "created" and now is None:
        return None  # it was deleted again
    deletes = latest[0].action == "created"
    if not deletes and not items.has_before(tx, latest[0]):
        return ItemUndo(item, "left", len(latest) + len(earlier), NO_COPY)
    why = _changed_by(current, earlier[-1]) if earlier else None
    return Step(item, latest[0], deletes, len(latest), len(earlier), why)


def _effective_choice(history: Iterable[WriteRecord], effect: "_Effect", numbers: set[int]) -> set[int]:
    """The chosen records, and the writes that stand again by a chosen undo of an undo. An undo is left out if a write
    that it undid is chosen, too, and so is one that was taken back by another chosen one: both changed nothing."""
    for one in history:
        if one.number in numbers and one.undoes not in numbers:
            numbers = numbers | effect.redone.get(one.number, set())
    return {number for number in numbers if not any(past.number in numbers for past in effect.undos.get(number, ()))}


def _undo_that_others_followed(
    history: list[WriteRecord], undos: Mapping[int, object], numbers: set[int]
) -> ItemUndo | None:
    stale = [one for one in history if one.number in numbers and one.number in undos]
    return ItemUndo(stale[0].item, "left", len(stale), _changed_by(history, stale[-1])) if stale else None


class _Effect(NamedTuple):
    """What stands of the records of an item."""

    current: list[WriteRecord]  # whose effect stands, the oldest first
    undos: dict[int, list[WriteRecord]]  # the undos that stand, each with the records it undid
    redone: dict[int, set[int]]  # the undos of undos, each with the numbers of the records that stand again by it


def _effect_of(history: Iterable[WriteRecord]) -> _Effect:
    current: list[WriteRecord] = []
    undos: dict[int, list[WriteRecord]] = {}
    redone: dict[int, set[int]] = {}
    for one in history:
        if one.undoes is None:
            current.append(one)
        elif one.undoes in undos:
            redone[one.number] = {past.number for past in undos[one.undoes]}
            current += undos.pop(one.undoes)
        else:
            undos[one.number] = [past for past in current if past.number >= one.undoes]
            current = [past for past in current if past.number < one.undoes]
    return _Effect(current, undos, redone)


def _last_run(current: Sequence[WriteRecord], numbers: set[int]) -> list[WriteRecord]:
    """The last records, as far as all of them are chosen."""
    start = len(current)
    while start and current[start - 1].number in numbers:
        start -= 1
    return list(current[start:])


def _changed_by(history: Sequence[WriteRecord], chosen: WriteRecord) -> str:
    later = next((one for one in history if one.number > chosen.number), None)
    return f"it was changed later by {later.writer}" if later else "it was changed later"
