"""Reviewing and undoing what clients wrote, in all families, from the journals that these declare."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from typing import Any

from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import new_id
from memory_mcp.errors import AppError, Invalid, NotFound
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.writes import Journal, JournalUndo
from memory_mcp.services.write_journal import ItemUndo, WriteGroup, WriteQuery, WriteRecord

MAX_ITEMS_PER_TRANSACTION = 200  # other writers wait meanwhile
MAX_REPORTED_ITEMS = 1000


@dataclass(frozen=True)
class ReviewQuery:
    """Which writes are wanted: those that match all of the fields."""

    writes: WriteQuery = field(default_factory=WriteQuery)
    families: frozenset[str] | None = None
    ids: frozenset[str] | None = None  # of single writes


@dataclass(frozen=True)
class ReviewedWrite:
    id: str
    family: str
    group: str  # the project, of a graph
    record: WriteRecord
    ref: str | None  # None: the memory no longer exists
    title: str
    is_undone: bool


@dataclass(frozen=True)
class ReviewedGroup:
    """The writes of one writer on one day, in all families."""

    group: WriteGroup
    families: dict[str, int]  # how many writes


@dataclass(frozen=True)
class ReviewedUndo:
    """What an undo does, or did, with one memory."""

    family: str
    ref: str | None
    title: str
    undo: ItemUndo


@dataclass
class UndoReport:
    undo_id: str | None  # None: a preview
    deleted: int = 0
    restored: int = 0
    left: int = 0
    rows_deleted: int = 0  # of tables, which do not count as memories
    rows_restored: int = 0
    items: list[ReviewedUndo] = field(default_factory=list)  # at most MAX_REPORTED_ITEMS
    incomplete: dict[str, str] = field(default_factory=dict)  # families and projects that cannot be read, and why

    @property
    def is_empty(self) -> bool:
        """Whether nothing is undone."""
        return not (self.deleted or self.restored or self.rows_deleted or self.rows_restored)

    def add(self, family: str, journal: Journal, undone: Sequence[ItemUndo]) -> None:
        outcomes = Counter(one.outcome for one in undone if one.rows is None)
        self.deleted += outcomes["delete"]
        self.restored += outcomes["restore"]
        self.left += outcomes["left"]
        self.rows_deleted += sum(one.rows or 0 for one in undone if one.outcome == "delete")
        self.rows_restored += sum(one.rows or 0 for one in undone if one.outcome == "restore")
        if reported := undone[: MAX_REPORTED_ITEMS - len(self.items)]:
            self.items += _shown(family, journal, reported)


@dataclass(frozen=True)
class WritesPage:
    writes: list[ReviewedWrite]
    incomplete: dict[str, str]


@dataclass(frozen=True)
class GroupsPage:
    groups: list[ReviewedGroup]
    incomplete: dict[str, str]


class WriteReview:
    """A user's own writes: those of all their clients and keys."""

    def __init__(self, opened: Mapping[str, OpenFamily[Any]], publish: Callable[[str, str], None]) -> None:
        """`publish` is called with the user and the family after an undo."""
        self._opened = opened
        self._publish = publish

    def writes(self, caller: Caller, query: ReviewQuery, limit: int) -> WritesPage:
        """The newest first. Raises Forbidden without the scope to read."""
        caller.require(Scope.READ)
        return self._find(caller, query, limit)

    def _find(self, caller: Caller, query: ReviewQuery, limit: int) -> WritesPage:
        incomplete: dict[str, str] = {}
        found: list[list[ReviewedWrite]] = []
        for family, journal, wanted in self._journals(caller, query, incomplete):
            with _collect_error(incomplete, family, journal.group):
                found.append(_reviewed(family, journal, wanted, limit))
        newest = merge(*found, key=lambda one: one.record.at, reverse=True)
        return WritesPage(list(islice(newest, limit)), incomplete)

    def groups(self, caller: Caller, query: ReviewQuery) -> GroupsPage:
        """By day and writer, the newest first. Raises Forbidden without the scope to read."""
        caller.require(Scope.READ)
        incomplete: dict[str, str] = {}
        found: dict[tuple[str, ...], ReviewedGroup] = {}
        for family, journal, wanted in self._journals(caller, query, incomplete):
            groups: list[WriteGroup] = []
            with _collect_error(incomplete, family, journal.group), journal.read() as tx:
                groups = journal.items.table.groups(tx, wanted)
            for one in groups:
                key = (one.day, one.source, one.client, one.key_id or "", one.key_name or "")
                found[key] = _joined(found.get(key), one, family)
        return GroupsPage(sorted(found.values(), key=lambda one: one.group.last_at, reverse=True), incomplete)

    def preview(self, caller: Caller, query: ReviewQuery) -> UndoReport:
        """What an undo would do now. Nothing is changed. Raises Forbidden without the scope to read."""
        caller.require(Scope.READ)
        report = UndoReport(None)
        for family, journal, wanted in self._journals(caller, query, report.incomplete):
            with _collect_error(report.incomplete, family, journal.group):
                if journal.undo is None:
                    report.add(family, journal, _refused(journal, wanted))
                    continue
                undone: set[str] = set()
                for chosen in _portions(journal, wanted):
                    report.add(family, journal, journal.undo.plan(chosen, undone))
        return report

    def undo(self, caller: Caller, query: ReviewQuery) -> UndoReport:
        """Undo the writes that match. What others changed later is left alone. The undo can be undone: its writes have
        its id. Raises NotFound if no write matches, and Forbidden without the scopes to write, to delete and to manage
        links."""
        for scope in (Scope.WRITE, Scope.DELETE, Scope.LINK):
            caller.require(scope)
        found = self._find(caller, query, 1)
        if not found.writes and not found.incomplete:
            raise NotFound("No write matches. Nothing was undone.", hint="List the writes to see which there are.")
        return self._undo(caller, query)

    def _undo(self, caller: Caller, query: ReviewQuery) -> UndoReport:
        report = UndoReport(new_id())
        undoing = replace(caller, undo_id=report.undo_id)
        for family, journal, wanted in self._journals(undoing, query, report.incomplete):
            with _collect_error(report.incomplete, family, journal.group):
                self._undo_in(undoing, family, journal, wanted, report)
        return report

    def undo_session(self, caller: Caller, session_id: str, families: frozenset[str]) -> tuple[int, int]:
        """Undo the writes of a session in some families. Returns how many items are undone, and how many are left."""
        report = self._undo(caller, ReviewQuery(WriteQuery(session_id=session_id), families))
        return report.deleted + report.restored, report.left

    def _undo_in(self, caller: Caller, family: str, journal: Journal, wanted: WriteQuery, report: UndoReport) -> None:
        if journal.undo is None:
            report.add(family, journal, _refused(journal, wanted))
            return
        for chosen in _portions(journal, wanted):
            report.add(family, journal, self._undo_portion(caller, family, journal.undo, chosen))

    def _undo_portion(
        self, caller: Caller, family: str, journal: JournalUndo, chosen: Mapping[str, set[int]]
    ) -> list[ItemUndo]:
        done = journal.run(caller, chosen)
        if any(one.outcome != "left" for one in done):
            self._publish(caller.user, family)
        return done

    def _journals(
        self, caller: Caller, query: ReviewQuery, incomplete: dict[str, str]
    ) -> Iterator[tuple[str, Journal, WriteQuery]]:
        """The journals that may have such writes, each with the query for it. `incomplete` gets the families whose
        journals cannot be opened."""
        numbers = _numbers(query.ids) if query.ids is not None else None
        for name, one in self._opened.items():
            is_wanted = name in caller.families and name in (query.families or self._opened)
            is_visible = one.family.is_confinable or not caller.is_confined
            if one.family.journals is None or not is_wanted or not is_visible:
                continue
            with _collect_error(incomplete, name):
                for journal in one.family.journals(one.operations, caller):
                    if numbers is None:
                        yield name, journal, query.writes
                    elif mine := numbers.get((name, journal.group)):
                        yield name, journal, replace(query.writes, numbers=frozenset(mine))


@contextmanager
def _collect_error(incomplete: dict[str, str], family: str, group: str = "") -> Iterator[None]:
    """One file that cannot be read does not keep the others from being reviewed."""
    try:
        yield
    except AppError as exc:
        incomplete[f"{family}:{group}" if group else family] = exc.public_message


def _numbers(ids: Iterable[str]) -> dict[tuple[str, str], set[int]]:
    """The numbers of single writes, by family and group. Raises Invalid for an id that is none of ours."""
    found: dict[tuple[str, str], set[int]] = {}
    for id_ in ids:
        family, _, rest = id_.partition(":")
        group, _, number = rest.rpartition(":")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise Invalid(f"{id_!r} is not an id of a write.", field="ids")
        found.setdefault((family, group), set()).add(int(number))
    return found


def _id_of(family: str, group: str, number: int) -> str:
    return f"{family}:{group}:{number}" if group else f"{family}:{number}"


def _reviewed(family: str, journal: Journal, query: WriteQuery, limit: int) -> list[ReviewedWrite]:
    with journal.read() as tx:
        records = journal.items.table.find(tx, query, limit)
        shown = journal.items.shown(tx, list(dict.fromkeys(one.item for one in records)))
        undone = set() if journal.undo is None else journal.undo.undone(tx, records)
    return [
        ReviewedWrite(
            _id_of(family, journal.group, one.number),
            family,
            journal.group,
            one,
            ref=shown[one.item].ref if one.item in shown else None,
            title=shown[one.item].title if one.item in shown else one.item,
            is_undone=one.number in undone,
        )
        for one in records
    ]


def _joined(known: ReviewedGroup | None, one: WriteGroup, family: str) -> ReviewedGroup:
    if known is None:
        return ReviewedGroup(one, {family: one.count})
    group = replace(
        known.group,
        count=known.group.count + one.count,
        first_at=min(known.group.first_at, one.first_at),
        last_at=max(known.group.last_at, one.last_at),
    )
    return ReviewedGroup(group, {**known.families, family: known.families.get(family, 0) + one.count})


def _portions(journal: Journal, wanted: WriteQuery) -> Iterator[dict[str, set[int]]]:
    """The chosen writes of some items at a time, the items that were written last first: an observation before its
    entity. What is written meanwhile is not among them, such as the undo itself."""
    with journal.read() as tx:
        last = journal.items.table.last_number(tx)
    below = last + 1
    while True:
        with journal.read() as tx:
            chosen = journal.items.table.chosen(tx, wanted, last, below, MAX_ITEMS_PER_TRANSACTION)
        if not chosen:
            return
        yield chosen
        below = min(max(numbers) for numbers in chosen.values())


def _refused(journal: Journal, wanted: WriteQuery) -> list[ItemUndo]:
    """Of writes that are only listed."""
    with journal.read() as tx:
        counts = journal.items.table.counts(tx, wanted)
    return [ItemUndo(item, "left", count, journal.why_no_undo) for item, count in counts.items()]


def _shown(family: str, journal: Journal, undone: Sequence[ItemUndo]) -> list[ReviewedUndo]:
    with journal.read() as tx:
        shown = journal.items.shown(tx, [one.item for one in undone])
    return [
        ReviewedUndo(
            family,
            shown[one.item].ref if one.item in shown else None,
            shown[one.item].title if one.item in shown else one.item,
            one,
        )
        for one in undone
    ]
