from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from types import UnionType
from typing import TypeVar, cast

from memory_mcp.caller import Caller
from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.errors import AppError, Conflict, Invalid, Unavailable
from memory_mcp.families.graph import Graph
from memory_mcp.families.graph.model import GraphAddition, Imported, NamedRelation, NewEntity
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import IMPORTED_FROM, ImportedNote, ImportOrigin, NewNote, Revision
from memory_mcp.families.stores import Stores
from memory_mcp.families.stores.model import IncomingFile
from memory_mcp.importers import bounds, found_items, undo
from memory_mcp.importers.history import ImportHistory, ImportLog, ImportRecord
from memory_mcp.importers.model import (
    OWN_FORMAT,
    FoundFile,
    FoundNote,
    ImportPlan,
    ImportProblem,
    Report,
    TargetFamily,
)
from memory_mcp.importers.readers import READERS, Found
from memory_mcp.importers.undo import AUTHOR, ImportUndo, Undone
from memory_mcp.progress import Bytes, ProgressCount, ReportProgress, report_nothing, track
from memory_mcp.services.access.tenants import folder_of
from memory_mcp.text.names import new_namespace

DEFAULT_DESTINATIONS: dict[TargetFamily, str] = {"notes": "default", "stores": "", "graph": "memory"}
"""The namespace, store or project if none is chosen; a store has the name of the format."""
NOTE_BATCH = 200  # in one transaction
GRAPH_BATCH = 500  # entities or relations in one transaction: others can write in between, and the bar moves
MAX_BATCH_CHARS = 4_000_000  # and the last item: all of a batch is in memory

T = TypeVar("T")


class Importers:
    """Imports from other tools, through the families. Importing the same file again adds nothing."""

    def __init__(self, notes: Notes, stores: Stores, graph: Graph, folder: Path) -> None:
        self._notes = notes
        self._stores = stores
        self._graph = graph
        self._folder = folder
        self._undo = ImportUndo(notes, stores, graph)

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
        caller = replace(caller, source="import", client=plan.format)
        steps = {"notes": self._import_notes, "stores": self._import_files, "graph": self._import_graph}
        if plan.dry_run:
            steps[plan.family](caller, plan, report, report_progress, None)
            return report
        with self.lock(caller):
            log = self.history(caller).begin(plan)
            is_whole = False
            try:
                steps[plan.family](caller, plan, report, report_progress, log)
                is_whole = True
            finally:
                log.finish(report, is_whole=is_whole)
        return report

    def history(self, caller: Caller) -> ImportHistory:
        """The caller's former imports."""
        return ImportHistory(folder_of(self._folder, caller.user))

    def lock(self, caller: Caller) -> AbstractContextManager[None]:
        """One import of a user at a time: two imports of the same file would add everything twice."""
        folder = folder_of(self._folder, caller.user)
        make_private_folder(folder)
        return FileLock(folder / "import.lock").acquire()

    def undo(self, caller: Caller, id_: str, report_progress: ReportProgress = report_nothing) -> ImportRecord:
        """Undo a whole import; memories that were changed since stay. What was undone before an error stays undone:
        the next undo goes on. Raises NotFound, and Conflict if it is undone already."""
        history = self.history(caller)
        with self.lock(caller):
            record = history.get(id_)
            if record.state == "undone":
                raise Conflict("This import is undone already.")
            undone = Undone()
            batches = history.batches(id_)
            for batch in track(batches, "Removing what was imported", history.count_batches(id_), report_progress):
                self._undo.undo_batch(caller, record, batch, undone)
            done = replace(record, state="undone", removed=undone.removed, kept=undone.kept)
            history.save(done)
        return done

    # Notes

    def _import_notes(
        self, caller: Caller, plan: ImportPlan, report: Report, report_progress: ReportProgress, log: ImportLog | None
    ) -> None:
        plan = replace(plan, into=new_namespace(plan.into))
        known = self._notes.transfer.imported(caller, plan.format)
        for found in _batches(_counted(_read(plan, report_progress), FoundNote, report), NOTE_BATCH):
            new = []
            for one in found:
                before = known.get(one.id)
                if before is None:
                    origin = ImportOrigin(plan.format, one.id, bounds.digest(one.note))
                    known[one.id] = ImportedNote("", origin, 0)
                    new.append(_with_origin(one.note, plan.into, origin))
                else:
                    self._compare_note(caller, plan, one, before, report, log)
                    if before.id:
                        known[one.id] = ImportedNote("", ImportOrigin(plan.format, one.id, bounds.digest(one.note)), 0)
            if new and log:
                log.add(undo.created_notes(self._notes.writer.create_all(caller, AUTHOR, new)))
            report.imported += len(new)

    def _compare_note(
        self,
        caller: Caller,
        plan: ImportPlan,
        found: FoundNote,
        before: ImportedNote,
        report: Report,
        log: ImportLog | None,
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
            if log:
                origin = ImportOrigin(plan.format, found.id, now, before.version + 1)
                former = self._notes.reader.read(caller, before.id)
                updated = self._notes.writer.update(caller, AUTHOR, before.id, _revision(found.note, origin))
                log.add(undo.updated_note(former, updated))

    # Stores

    def _import_files(
        self, caller: Caller, plan: ImportPlan, report: Report, report_progress: ReportProgress, log: ImportLog | None
    ) -> None:
        self._check_store(caller, plan)
        for file in _counted(_read(plan, report_progress), FoundFile, report):
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
            if arrival == "new" and log:
                content, _ = self._stores.content(caller, plan.into, file.path)
                log.add(undo.written_file(file.path, content))
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

    def _import_graph(
        self, caller: Caller, plan: ImportPlan, report: Report, report_progress: ReportProgress, log: ImportLog | None
    ) -> None:
        """Import the entities first, then the relations, which may come before their entities in the file."""
        next(_read(plan, report_nothing), None)  # refuses a wrong file before the project is created
        count = _byte_count(plan, report_progress, passes=2)
        found = _counted(_read_items(plan, count.add), NewEntity | NamedRelation, report)
        entities = (one for one in found if isinstance(one, NewEntity))
        relations = (one for one in _read_items(plan, count.add) if isinstance(one, NamedRelation))
        if log is None:
            counts = asdict(self._graph.compare_graph(caller, plan.into, entities, relations))
        else:
            counts = self._add_graph(caller, plan.into, entities, relations, log)
        known, dangling = counts.pop("known"), counts.pop("dangling")
        report.imported, report.skipped, report.details = counts["entities"] + counts["relations"], known, counts
        if dangling:
            report.read -= dangling
            report.left_out += dangling
            report.problems.append(ImportProblem(f"{dangling} relations", "They name unknown entities.", "left_out"))

    def _add_graph(
        self,
        caller: Caller,
        project: str,
        entities: Iterable[NewEntity],
        relations: Iterable[NamedRelation],
        log: ImportLog,
    ) -> dict[str, int]:
        def add(some_entities: list[NewEntity], some_relations: list[NamedRelation]) -> Imported:
            addition = GraphAddition()
            counts = self._graph.add_graph(caller, project, some_entities, some_relations, addition=addition)
            log.add(undo.added_graph(addition))
            return counts

        added = [add([], [])]  # an empty graph creates a project too
        added += [add(some, []) for some in _batches(entities, GRAPH_BATCH)]
        added += [add([], some) for some in _batches(relations, GRAPH_BATCH)]
        return {name: sum(getattr(one, name) for one in added) for name in asdict(added[0])}


def _read(plan: ImportPlan, report_progress: ReportProgress) -> Iterator[Found]:
    return _read_items(plan, _byte_count(plan, report_progress).add)


def _read_items(plan: ImportPlan, on_bytes: OnBytes) -> Iterator[Found]:
    """What the file holds: read by this process now, or by a child process before."""
    if plan.found:
        return found_items.read(plan.found, on_bytes)
    if plan.format == OWN_FORMAT:
        raise Invalid(f"{plan.file_name} is an export of Memory MCP, and of no other tool.")
    return READERS[plan.format](plan.path, on_bytes)


def _byte_count(plan: ImportPlan, report_progress: ReportProgress, passes: int = 1) -> ProgressCount:
    """Counts the bytes that are read of a file, or of all files in a folder."""
    path = plan.found or plan.path
    files = path.rglob("*") if path.is_dir() else [path]
    total = sum(file.lstat().st_size for file in files if file.is_file())
    return ProgressCount(f"Reading {plan.file_name}", Bytes(passes * total), report_progress)


def _counted(found: Iterator[Found], kind: type[T] | UnionType, report: Report) -> Iterator[T]:
    """The found items of the format's kind. Problems are reported."""
    for one in found:
        if isinstance(one, ImportProblem):
            report.add(one)
            if one.outcome == "left_out":
                continue
        report.read += 1
        if isinstance(one, kind):
            yield cast(T, one)


def _batches(found: Iterable[T], max_items: int) -> Iterator[list[T]]:
    batch: list[T] = []
    chars = 0
    for one in found:
        batch.append(one)
        chars += found_items.count_chars(one)
        if len(batch) == max_items or chars > MAX_BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


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
