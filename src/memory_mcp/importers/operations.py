from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from memory_mcp.caller import Caller
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.graph import Graph
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import IMPORTED_FROM, Author, ImportedNote, ImportOrigin, NewNote, Revision
from memory_mcp.families.stores import Stores
from memory_mcp.families.stores.model import IncomingFile
from memory_mcp.importers import (
    anthropic_memory,
    basic_memory,
    bounds,
    chatgpt,
    claude,
    mcp_memory_service,
    mem0,
    server_memory,
)
from memory_mcp.importers.model import Format, FoundFile, FoundNote, ImportPlan, Problem, Report
from memory_mcp.names import new_namespace
from memory_mcp.progress import ReportProgress, report_nothing

NOTES: dict[Format, Callable[[Path], Iterator[FoundNote | Problem]]] = {
    "mcp-memory-service": mcp_memory_service.read,
    "mem0": mem0.read,
    "chatgpt": chatgpt.read,
    "claude": claude.read,
}
FILES: dict[Format, Callable[[Path], Iterator[FoundFile | Problem]]] = {
    "basic-memory": basic_memory.read,
    "anthropic-memory": anthropic_memory.read,
}
AUTHOR = Author("import")
AT_ONCE = 200  # notes in one transaction
GRAPH_AT_ONCE = 5000  # entities or relations in one

T = TypeVar("T")


class Importers:
    """Taking in what other tools kept, through the rooms. A second import of the same adds nothing."""

    def __init__(self, notes: Notes, stores: Stores, graph: Graph, folder: Path) -> None:
        self._notes = notes
        self._stores = stores
        self._graph = graph
        self._lock = FileLock(folder / "import.lock")

    def move(self, caller: Caller, move: ImportPlan, report_progress: ReportProgress = report_nothing) -> Report:
        """Take everything in, and say what became of each memory. A dry run says so without writing anything.

        What cannot be taken in is told, and keeps nothing else out. Raises Invalid, before anything is written, for a
        file that is not of this format.
        """
        report = Report(move.format, move.family, move.into, move.dry_run)
        taking = {"notes": self._take_notes, "stores": self._take_files, "graph": self._take_graph}[move.family]
        # One import at a time: two of the same would each not see what the other is about to add.
        with nullcontext() if move.dry_run else self._lock.acquire():
            taking(caller, move, report, report_progress)
        return report

    # Notes

    def _take_notes(self, caller: Caller, move: ImportPlan, report: Report, report_progress: ReportProgress) -> None:
        move = replace(move, into=new_namespace(move.into))
        known = self._notes.transfer.imported(caller, move.format)
        for found in _batches(_counted(NOTES[move.format](move.path), report, report_progress), AT_ONCE):
            new = []
            for one in found:
                before = known.get(one.id)
                if before is None:
                    origin = ImportOrigin(move.format, one.id, bounds.digest(one.note))
                    known[one.id] = ImportedNote("", origin, 0)
                    new.append(_with_origin(one.note, move.into, origin))
                else:
                    self._compare_note(caller, move, one, before, report)
                    if before.id:
                        known[one.id] = ImportedNote("", ImportOrigin(move.format, one.id, bounds.digest(one.note)), 0)
            if new and not move.dry_run:
                self._notes.writer.create_all(caller, AUTHOR, new)
            report.imported += len(new)

    def _compare_note(
        self, caller: Caller, move: ImportPlan, found: FoundNote, before: ImportedNote, report: Report
    ) -> None:
        """A memory that was imported before: it is brought up to date, unless somebody has changed the note here."""
        now = bounds.digest(found.note)
        if now == before.origin.digest:
            report.skipped += 1
        elif not before.id:  # of this very import
            report.tell(Problem(found.where, f"Another memory before it has the same id, {found.id!r}.", "kept"))
        elif not before.is_untouched:
            report.tell(Problem(found.where, "It has changed there, and its note was changed or deleted here.", "kept"))
        else:
            report.updated += 1
            if not move.dry_run:
                origin = ImportOrigin(move.format, found.id, now, before.version + 1)
                self._notes.writer.update(caller, AUTHOR, before.id, _revision(found.note, origin))

    # Stores

    def _take_files(self, caller: Caller, move: ImportPlan, report: Report, report_progress: ReportProgress) -> None:
        self._check_store(caller, move)
        for file in _counted(FILES[move.format](move.path), report, report_progress):
            try:
                coming = IncomingFile(f"{file.path}.md", file.text.encode(), file.changed_ns, is_foreign=True)
                arrival = self._stores.import_file(caller, move.into, coming, dry_run=move.dry_run)
            except Unavailable:
                raise
            except AppError as exc:
                report.tell(Problem(file.where, exc.message))
                continue
            if arrival == "other":
                report.tell(Problem(file.where, f"There is another memory at {file.path!r}.", "kept"))
                continue
            report.skipped += arrival == "same"
            report.imported += arrival == "new"
        if (report.imported or report.skipped) and not move.dry_run:  # an import before this one may have broken off
            self._stores.reindex(caller, move.into, lambda *_: None)

    def _check_store(self, caller: Caller, move: ImportPlan) -> None:
        """A folder cannot move into itself."""
        source = move.path.resolve()
        for store in self._stores.all(caller):
            target = store.folder.resolve()
            if store.name == move.into and (source == target or source in target.parents or target in source.parents):
                raise Invalid(
                    f"{move.path} is the store {store.name!r} already, or a part of it. Choose another store."
                )

    # Graph

    def _take_graph(self, caller: Caller, move: ImportPlan, report: Report, report_progress: ReportProgress) -> None:
        """Entities in one pass and relations in another, which may stand before the entities they name."""
        lines = islice(server_memory.read(move.path), 1)
        list(lines)  # a wrong file is refused here, before the project is made
        found = _counted(server_memory.read(move.path), report, report_progress)
        entities = (one for one in found if isinstance(one, NewEntity))
        ties = (one for one in server_memory.read(move.path) if isinstance(one, NamedRelation))
        if move.dry_run:
            counts = asdict(self._graph.compare_graph(caller, move.into, entities, ties))
        else:
            counts = self._add_graph(caller, move.into, entities, ties)
        known, dangling = counts.pop("known"), counts.pop("dangling")
        report.imported, report.skipped, report.details = counts["entities"] + counts["relations"], known, counts
        if dangling:
            report.read -= dangling
            report.left_out += dangling
            report.told.append(Problem(f"{dangling} relations", "They name entities that nobody knows.", "left_out"))

    def _add_graph(
        self, caller: Caller, project: str, entities: Iterable[NewEntity], ties: Iterable[NamedRelation]
    ) -> dict[str, int]:
        added = [self._graph.add_graph(caller, project, [], [])]  # an empty graph makes a project too
        added += [self._graph.add_graph(caller, project, some, []) for some in _batches(entities, GRAPH_AT_ONCE)]
        added += [self._graph.add_graph(caller, project, [], some) for some in _batches(ties, GRAPH_AT_ONCE)]
        return {name: sum(getattr(one, name) for one in added) for name in asdict(added[0])}


def _counted(found: Iterator[T | Problem], report: Report, report_progress: ReportProgress) -> Iterator[T]:
    """What was found, without what was not, which is told."""
    for one in found:
        if isinstance(one, Problem):
            report.tell(one)
            if one.outcome == "left_out":
                continue
        report.read += 1
        report_progress("read", report.read, None)
        if not isinstance(one, Problem):
            yield one


def _batches(found: Iterable[T], most: int) -> Iterator[list[T]]:
    remaining = iter(found)
    while some := list(islice(remaining, most)):
        yield some


def _with_origin(new: NewNote, namespace: str, origin: ImportOrigin) -> NewNote:
    return replace(new, namespace=namespace, metadata={**new.metadata, IMPORTED_FROM: asdict(origin)})


def _revision(new: NewNote, origin: ImportOrigin) -> Revision:
    return Revision(
        content=new.content,
        title=new.title,
        tags=new.tags,
        folder=new.folder,
        metadata_patch={**new.metadata, IMPORTED_FROM: asdict(origin)},
        expires_at=new.expires_at,
    )
