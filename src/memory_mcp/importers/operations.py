from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from memory_mcp.caller import Caller
from memory_mcp.engines.files.compressed import OnBytes
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
from memory_mcp.importers.model import Format, FoundFile, FoundNote, ImportPlan, ImportProblem, Report
from memory_mcp.names import new_namespace
from memory_mcp.progress import Bytes, ProgressCount, ReportProgress, report_nothing

NOTES: dict[Format, Callable[[Path, OnBytes], Iterator[FoundNote | ImportProblem]]] = {
    "mcp-memory-service": mcp_memory_service.read,
    "mem0": mem0.read,
    "chatgpt": chatgpt.read,
    "claude": claude.read,
}
FILES: dict[Format, Callable[[Path, OnBytes], Iterator[FoundFile | ImportProblem]]] = {
    "basic-memory": basic_memory.read,
    "anthropic-memory": anthropic_memory.read,
}
AUTHOR = Author("import")
NOTE_BATCH = 200  # in one transaction
GRAPH_BATCH = 5000  # entities or relations in one transaction

T = TypeVar("T")


class Importers:
    """Imports from other tools, through the families. Importing the same file again adds nothing."""

    def __init__(self, notes: Notes, stores: Stores, graph: Graph, folder: Path) -> None:
        self._notes = notes
        self._stores = stores
        self._graph = graph
        self._lock = FileLock(folder / "import.lock")

    def run(
        self,
        caller: Caller,
        plan: ImportPlan,
        report_progress: ReportProgress = report_nothing,
        report: Report | None = None,
    ) -> Report:
        """Import everything and report the result, in `report` if that is given. A dry run writes nothing.

        A memory that cannot be imported is reported, and does not stop the others. Raises Invalid, before anything is
        written, for a file that is not of this format.
        """
        report = report or plan.new_report()
        steps = {"notes": self._import_notes, "stores": self._import_files, "graph": self._import_graph}
        # One import at a time: two imports of the same file would add everything twice.
        with nullcontext() if plan.dry_run else self._lock.acquire():
            steps[plan.family](caller, plan, report, report_progress)
        return report

    # Notes

    def _import_notes(self, caller: Caller, plan: ImportPlan, report: Report, report_progress: ReportProgress) -> None:
        plan = replace(plan, into=new_namespace(plan.into))
        known = self._notes.transfer.imported(caller, plan.format)
        reading = NOTES[plan.format](plan.path, _byte_count(plan.path, report_progress).add)
        for found in _batches(_counted(reading, report), NOTE_BATCH):
            new = []
            for one in found:
                before = known.get(one.id)
                if before is None:
                    origin = ImportOrigin(plan.format, one.id, bounds.digest(one.note))
                    known[one.id] = ImportedNote("", origin, 0)
                    new.append(_with_origin(one.note, plan.into, origin))
                else:
                    self._compare_note(caller, plan, one, before, report)
                    if before.id:
                        known[one.id] = ImportedNote("", ImportOrigin(plan.format, one.id, bounds.digest(one.note)), 0)
            if new and not plan.dry_run:
                self._notes.writer.create_all(caller, AUTHOR, new)
            report.imported += len(new)

    def _compare_note(
        self, caller: Caller, plan: ImportPlan, found: FoundNote, before: ImportedNote, report: Report
    ) -> None:
        """Update the note of a memory that was imported before, unless the note was changed here."""
        now = bounds.digest(found.note)
        if now == before.origin.digest:
            report.skipped += 1
        elif not before.id:  # from this import
            report.add(ImportProblem(found.where, f"Another memory before it has the same id, {found.id!r}.", "kept"))
        elif not before.is_untouched:
            report.add(
                ImportProblem(found.where, "It has changed there, and its note was changed or deleted here.", "kept")
            )
        else:
            report.updated += 1
            if not plan.dry_run:
                origin = ImportOrigin(plan.format, found.id, now, before.version + 1)
                self._notes.writer.update(caller, AUTHOR, before.id, _revision(found.note, origin))

    # Stores

    def _import_files(self, caller: Caller, plan: ImportPlan, report: Report, report_progress: ReportProgress) -> None:
        self._check_store(caller, plan)
        reading = FILES[plan.format](plan.path, _byte_count(plan.path, report_progress).add)
        for file in _counted(reading, report):
            try:
                coming = IncomingFile(f"{file.path}.md", file.text.encode(), file.changed_ns, is_foreign=True)
                arrival = self._stores.import_file(caller, plan.into, coming, dry_run=plan.dry_run)
            except Unavailable:
                raise
            except AppError as exc:
                report.add(ImportProblem(file.where, exc.message))
                continue
            if arrival == "other":
                report.add(ImportProblem(file.where, f"There is another memory at {file.path!r}.", "kept"))
                continue
            report.skipped += arrival == "same"
            report.imported += arrival == "new"
        if (report.imported or report.skipped) and not plan.dry_run:  # an earlier import may have been interrupted
            self._stores.reindex(caller, plan.into, report_nothing)

    def _check_store(self, caller: Caller, plan: ImportPlan) -> None:
        """Refuse to import a folder into itself."""
        source = plan.path.resolve()
        for store in self._stores.all(caller):
            target = store.folder.resolve()
            if store.name == plan.into and (source == target or source in target.parents or target in source.parents):
                raise Invalid(
                    f"{plan.path} is the store {store.name!r} already, or a part of it. Choose another store."
                )

    # Graph

    def _import_graph(self, caller: Caller, plan: ImportPlan, report: Report, report_progress: ReportProgress) -> None:
        """Import the entities first, then the relations, which may come before their entities in the file."""
        lines = islice(server_memory.read(plan.path), 1)
        list(lines)  # refuses a wrong file before the project is created
        count = _byte_count(plan.path, report_progress, passes=2)
        found = _counted(server_memory.read(plan.path, count.add), report)
        entities = (one for one in found if isinstance(one, NewEntity))
        relations = (one for one in server_memory.read(plan.path, count.add) if isinstance(one, NamedRelation))
        if plan.dry_run:
            counts = asdict(self._graph.compare_graph(caller, plan.into, entities, relations))
        else:
            counts = self._add_graph(caller, plan.into, entities, relations)
        known, dangling = counts.pop("known"), counts.pop("dangling")
        report.imported, report.skipped, report.details = counts["entities"] + counts["relations"], known, counts
        if dangling:
            report.read -= dangling
            report.left_out += dangling
            report.problems.append(ImportProblem(f"{dangling} relations", "They name unknown entities.", "left_out"))

    def _add_graph(
        self, caller: Caller, project: str, entities: Iterable[NewEntity], relations: Iterable[NamedRelation]
    ) -> dict[str, int]:
        added = [self._graph.add_graph(caller, project, [], [])]  # an empty graph creates a project too
        added += [self._graph.add_graph(caller, project, some, []) for some in _batches(entities, GRAPH_BATCH)]
        added += [self._graph.add_graph(caller, project, [], some) for some in _batches(relations, GRAPH_BATCH)]
        return {name: sum(getattr(one, name) for one in added) for name in asdict(added[0])}


def _byte_count(path: Path, report_progress: ReportProgress, passes: int = 1) -> ProgressCount:
    """Counts the bytes that are read of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    total = sum(file.lstat().st_size for file in files if file.is_file())
    return ProgressCount(f"Reading {path.name}", Bytes(passes * total), report_progress)


def _counted(found: Iterator[T | ImportProblem], report: Report) -> Iterator[T]:
    """The found items. Problems are reported."""
    for one in found:
        if isinstance(one, ImportProblem):
            report.add(one)
            if one.outcome == "left_out":
                continue
        report.read += 1
        if not isinstance(one, ImportProblem):
            yield one


def _batches(found: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(found)
    while some := list(islice(remaining, size)):
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
