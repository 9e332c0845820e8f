"""Importing exports of Memory MCP itself in the web app, and undoing such an import as a whole.

An undo uses the journals of writes, which know the session of each write. What a journal cannot undo is deleted as its
family declares, if it still has the version that was imported.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from memory_mcp.caller import Caller
from memory_mcp.errors import Conflict, NotFound
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.maintenance import ExportUndo, ImportResult
from memory_mcp.importers.history import ImportRecord
from memory_mcp.importers.model import OWN_FORMAT, ImportPlan, ImportProblem, Report
from memory_mcp.importers.operations import Importers
from memory_mcp.progress import ReportProgress


class ReadExport(Protocol):
    def __call__(
        self, caller: Caller, folder: Path, *, dry_run: bool, report_progress: ReportProgress
    ) -> ImportResult: ...


@dataclass(frozen=True)
class OwnExports:
    read: ReadExport
    undo_session: Callable[[Caller, str, frozenset[str]], tuple[int, int]]
    """Undoes the writes of a session in some families. Returns how many memories are undone, and how many stay."""
    families: Mapping[str, OpenFamily[Any]]
    importers: Importers  # whose history and lock are used

    def run(self, caller: Caller, plan: ImportPlan, report_progress: ReportProgress) -> Report:
        """`import_folder` with the report that imports of other formats have."""
        return _report(plan, self.import_folder(caller, plan, report_progress))

    def import_folder(self, caller: Caller, plan: ImportPlan, report_progress: ReportProgress) -> ImportResult:
        """Import the folder of an export, or only compare it. New memories are added, existing ones stay as they are.
        The import is listed and can be undone. Raises Invalid for a folder that is not an export."""
        if plan.dry_run:
            return self.read(caller, plan.path, dry_run=True, report_progress=report_progress)
        with self.importers.lock(caller):
            log = self.importers.history(caller).begin(plan)
            importing = replace(caller, source="import", client=OWN_FORMAT, session_id=_session(log.id))
            report, is_whole, before = plan.new_report(), False, self._versions(caller)
            try:
                result = self.read(importing, plan.path, dry_run=False, report_progress=report_progress)
                report, is_whole = _report(plan, result), True
            finally:
                log.add(self._added(caller, plan.path, before))
                log.finish(report, is_whole=is_whole)
        return result

    def undo(self, caller: Caller, id_: str) -> ImportRecord:
        """Delete what an import added, unless it was changed since. Raises NotFound, and Conflict if it is undone
        already."""
        history = self.importers.history(caller)
        with self.importers.lock(caller):
            record = history.get(id_)
            if record.state == "undone":
                raise Conflict("This import is undone already.")
            journaled = frozenset(self.families) - {name for name, _, _ in self._undos()}
            removed, kept = self.undo_session(caller, _session(id_), journaled)
            for batch in history.batches(id_):
                deleted, changed = self._delete_unchanged(caller, batch)
                removed, kept = removed + deleted, kept + changed
            done = replace(record, state="undone", removed=removed, kept=kept)
            history.save(done)
        return done

    def _delete_unchanged(self, caller: Caller, batch: Mapping[str, Mapping[str, str]]) -> tuple[int, int]:
        """Delete what an import has added, by family. Returns how many are deleted, and how many were changed since."""
        deleted = changed = 0
        for name, operations, how in self._undos():
            imported, now = batch.get(name, {}), how.versions(operations, caller)
            unchanged = [ref for ref, version in imported.items() if now.get(ref) == version]
            for ref in unchanged:
                with suppress(NotFound):  # deleted by another client
                    how.delete(operations, caller, ref)
            deleted += len(unchanged)
            changed += len(imported.keys() & now.keys()) - len(unchanged)
        return deleted, changed

    def _added(self, caller: Caller, export: Path, before: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """The versions of what an import has added, by family."""
        return {
            name: {
                ref: version
                for ref, version in how.versions(operations, caller).items()
                if ref not in before[name] and how.is_in_export(export, ref)
            }
            for name, operations, how in self._undos()
        }

    def _versions(self, caller: Caller) -> dict[str, dict[str, str]]:
        return {name: how.versions(operations, caller) for name, operations, how in self._undos()}

    def _undos(self) -> Iterator[tuple[str, Any, ExportUndo[Any]]]:
        """The families that undo an import by themselves, not by their journals."""
        for name, one in self.families.items():
            if one.family.maintenance and (how := one.family.maintenance().import_undo):
                yield name, one.operations, how


def _session(import_id: str) -> str:
    """Of the writes of an import, in the journals."""
    return f"import {import_id}"


def _report(plan: ImportPlan, result: ImportResult) -> Report:
    report = plan.new_report()
    report.imported, report.skipped = sum(result.new.values()), sum(result.known.values())
    report.details = {what: count for what, count in result.new.items() if count}
    for one in result.left_out:
        report.add(ImportProblem(one.path, one.why))
    report.read = report.imported + report.skipped + report.refused
    return report
