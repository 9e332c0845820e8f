"""Importing exports of Memory MCP itself in the web app, and undoing such an import as a whole.

An undo uses the journals of writes, which know the session of each write. Portals have no journal: one that still has
the version that was imported is deleted.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from memory_mcp.caller import Caller
from memory_mcp.errors import Conflict, NotFound
from memory_mcp.families.maintenance import ImportResult
from memory_mcp.families.portals.operations import Portals
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
    undo_session: Callable[[Caller, str], tuple[int, int]]  # how many memories are undone, and how many stay
    portals: Portals
    importers: Importers  # whose history and lock are used

    def run(self, caller: Caller, plan: ImportPlan, report_progress: ReportProgress) -> Report:
        """Import the folder of an export, or only compare it. New memories are added, existing ones stay as they are.

        Raises Invalid for a folder that is not an export.
        """
        if plan.dry_run:
            return _report(plan, self.read(caller, plan.path, dry_run=True, report_progress=report_progress))
        with self.importers.lock(caller):
            log = self.importers.history(caller).begin(plan)
            importing = replace(caller, source="import", client=OWN_FORMAT, session_id=_session(log.id))
            report, is_whole, before = plan.new_report(), False, self._portal_versions(caller)
            try:
                result = self.read(importing, plan.path, dry_run=False, report_progress=report_progress)
                report, is_whole = _report(plan, result), True
            finally:
                added = {uri: one for uri, one in self._portal_versions(caller).items() if uri not in before}
                log.add({"portals": {uri: one for uri, one in added.items() if _has_portal(plan.path, uri)}})
                log.finish(report, is_whole=is_whole)
        return report

    def undo(self, caller: Caller, id_: str) -> ImportRecord:
        """Delete what an import added, unless it was changed since. Raises NotFound, and Conflict if it is undone
        already."""
        history = self.importers.history(caller)
        with self.importers.lock(caller):
            record = history.get(id_)
            if record.state == "undone":
                raise Conflict("This import is undone already.")
            removed, kept = self.undo_session(caller, _session(id_))
            now = self._portal_versions(caller)
            imported = {uri: version for batch in history.batches(id_) for uri, version in batch["portals"].items()}
            unchanged = [uri for uri, version in imported.items() if now.get(uri) == version]
            for uri in unchanged:
                with suppress(NotFound):  # deleted by another client
                    self.portals.delete(caller, uri, None, None, confirm=True)
            kept += len(imported.keys() & now.keys()) - len(unchanged)
            done = replace(record, state="undone", removed=removed + len(unchanged), kept=kept)
            history.save(done)
        return done

    def _portal_versions(self, caller: Caller) -> dict[str, str]:
        return {folder.address.portal_uri: folder.version() for folder in self.portals.all(caller)}


def _session(import_id: str) -> str:
    """Of the writes of an import, in the journals."""
    return f"import {import_id}"


def _has_portal(export: Path, uri: str) -> bool:
    """Another client may create a portal during an import."""
    return (export / "portals" / f"{uri.removeprefix('mem://')}.db").is_file()


def _report(plan: ImportPlan, result: ImportResult) -> Report:
    report = plan.new_report()
    report.imported, report.skipped = sum(result.new.values()), sum(result.known.values())
    report.details = {what: count for what, count in result.new.items() if count}
    for one in result.left_out:
        report.add(ImportProblem(one.path, one.why))
    report.read = report.imported + report.skipped + report.refused
    return report
