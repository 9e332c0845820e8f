"""Undoing writes to tables. Each write is undone by itself: its rows are deleted, whatever others wrote later."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read
from memory_mcp.errors import AppError
from memory_mcp.families.portals.address import SCHEME
from memory_mcp.families.portals.row_undo import FoundRows, RowUndo
from memory_mcp.services.write_journal import ItemUndo, WriteRecord, WriteTable
from memory_mcp.services.write_journal.model import MAX_COPY_BYTES
from memory_mcp.services.write_journal.undo import NO_COPY

UNMARKED = "a former version wrote its rows, and did not record which; delete them with portal_delete"
NO_FORMER_STATE = "deleted rows, and former names and descriptions, are not kept"
ROWS_GONE = "its rows are no longer there"
IRREVERSIBLE = f"this cannot be taken back: no copy of more than {MAX_COPY_BYTES >> 20} MB is kept"


class WrittenRows(Protocol):
    """The rows of a caller's tables, here or on another server."""

    def find(self, caller: Caller, uri: str, marks: Collection[int], undo_ids: Collection[str]) -> FoundRows: ...

    def undo(self, caller: Caller, uri: str, steps: Sequence[RowUndo]) -> dict[int, int]: ...


@dataclass
class _Steps:
    """How the chosen writes to one table are undone."""

    delete: list[WriteRecord] = field(default_factory=list)  # whose rows are deleted
    restore: list[WriteRecord] = field(default_factory=list)  # undos, whose rows are put back
    left: Counter[str] = field(default_factory=Counter)  # how many writes are left alone, by reason

    def possible(self, found: FoundRows) -> "_Steps":
        """Those for which there are rows."""
        delete = [one for one in self.delete if one.mark in found.counts]
        restore = [one for one in self.restore if one.undo_id in found.copies]
        return self._only(delete, restore, found.why_none)

    def done(self, rows: Mapping[int, int]) -> "_Steps":
        """Those that changed rows, of which `rows` has the marks. Another undo may have come first."""
        delete, restore = ([one for one in some if one.mark in rows] for some in (self.delete, self.restore))
        return self._only(delete, restore)

    def _only(self, delete: list[WriteRecord], restore: list[WriteRecord], why: str | None = None) -> "_Steps":
        """Some of these steps. The others are left alone."""
        left = self.left.copy()
        left[why or ROWS_GONE] += len(self.delete) - len(delete)
        left[why or NO_COPY] += len(self.restore) - len(restore)
        return _Steps(delete, restore, left)

    def row_undos(self) -> list[RowUndo]:
        return [
            *(RowUndo(one.number, _mark(one)) for one in self.delete),
            *(RowUndo(one.number, _mark(one), one.undo_id) for one in self.restore),
        ]

    def outcomes(self, item: str, rows: Mapping[int, int], why: str | None) -> list[ItemUndo]:
        """`rows` is how many each mark has, `why` says that rows which are deleted cannot be put back."""
        deleted, restored = (sum(rows.get(_mark(one), 0) for one in some) for some in (self.delete, self.restore))
        return [
            *([ItemUndo(item, "delete", len(self.delete), why, deleted)] if self.delete else []),
            *([ItemUndo(item, "restore", len(self.restore), None, restored)] if self.restore else []),
            *(ItemUndo(item, "left", count, reason) for reason, count in self.left.items() if count),
        ]

    def fail(self, why: str) -> None:
        """Leave everything alone."""
        self.left[why] += len(self.delete) + len(self.restore)
        self.delete, self.restore = [], []


class TableUndo:
    """The undo of a journal of writes to tables."""

    def __init__(
        self, table: WriteTable, read: Callable[[], AbstractContextManager[Read]], rows: WrittenRows, caller: Caller
    ) -> None:
        """`caller` is who asks for a plan."""
        self._table = table
        self._read = read
        self._rows = rows
        self._caller = caller

    def plan(self, chosen: Mapping[str, set[int]], undone: set[str]) -> list[ItemUndo]:
        return [one for item, steps in self._steps(chosen).items() for one in self._undo(self._caller, item, steps)]

    def run(self, caller: Caller, chosen: Mapping[str, set[int]]) -> list[ItemUndo]:
        steps = self._steps(chosen).items()
        return [one for item, own in steps for one in self._undo(caller, item, own, dry_run=False)]

    def undone(self, tx: Read, records: Sequence[WriteRecord]) -> set[int]:
        marked = [one.number for one in records if one.mark is not None]
        histories = _histories(self._table.same_rows(tx, marked)).values()
        return {one.number for history in histories if _is_undo(history[-1]) for one in history if not _is_undo(one)}

    def _undo(self, caller: Caller, item: str, steps: _Steps, *, dry_run: bool = True) -> list[ItemUndo]:
        """Undo the writes to one table. What cannot be done is left alone."""
        if not steps.delete and not steps.restore:
            return steps.outcomes(item, {}, None)
        uri = f"{SCHEME}{item}"
        try:
            marks = [_mark(one) for one in (*steps.delete, *steps.restore)]
            there = self._rows.find(caller, uri, marks, sorted({str(one.undo_id) for one in steps.restore}))
            possible = steps.possible(there)
            wanted = possible.row_undos()
            if dry_run or not wanted:
                rows = {_mark(one): -(one.rows or 0) for one in possible.restore} | there.counts
            else:
                rows = self._rows.undo(caller, uri, wanted)
                possible = possible.done(rows)
        except AppError as exc:
            steps.fail(exc.public_message)
            return steps.outcomes(item, {}, None)
        return possible.outcomes(item, rows, None if there.is_copied else IRREVERSIBLE)

    def _steps(self, chosen: Mapping[str, set[int]]) -> dict[str, _Steps]:
        numbers = {number for several in chosen.values() for number in several}
        with self._read() as tx:
            records = self._table.same_rows(tx, numbers)
        steps = {item: _Steps() for item in chosen}
        for one in records:
            if one.mark is None and one.number in numbers:
                steps[one.item].left[UNMARKED if (one.rows or 0) > 0 else NO_FORMER_STATE] += 1
        for (item, _), history in _histories(records).items():
            if item in steps:  # one import may have written to several tables
                _add_step(steps[item], history, numbers)
        return steps


def _add_step(steps: _Steps, history: Sequence[WriteRecord], numbers: Collection[int]) -> None:
    """Add the step that undoes what is chosen of one write's history: its rows are deleted, or restored if they are
    deleted now. The first chosen record says what is to be undone; nothing is added if that is undone already."""
    last, first = history[-1], next((one for one in history if one.number in numbers), None)
    if first is None or _is_undo(first) != _is_undo(last):
        return
    if not _is_undo(last):
        steps.delete.append(last)
    elif last.number in numbers:
        steps.restore.append(last)


def _is_undo(record: WriteRecord) -> bool:
    """Whether it has deleted the rows of its mark. The undo of such an undo has put them back."""
    return (record.rows or 0) < 0


def _histories(records: Iterable[WriteRecord]) -> dict[tuple[str, int], list[WriteRecord]]:
    """The records about the rows of each write to a table, the oldest first."""
    found: dict[tuple[str, int], list[WriteRecord]] = {}
    for one in records:
        if one.mark is not None:
            found.setdefault((one.item, one.mark), []).append(one)
    return found


def _mark(record: WriteRecord) -> int:
    return record.mark or 0
