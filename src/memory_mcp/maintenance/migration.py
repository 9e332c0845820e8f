"""Migration of every file to this version's schema, instead of each at its first use."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from memory_mcp.engines.sqlite import Database, integrity
from memory_mcp.errors import AppError
from memory_mcp.families.maintenance import DatabaseFile
from memory_mcp.maintenance.layout import Layout
from memory_mcp.progress import ReportProgress, report_nothing, track


@dataclass(frozen=True)
class MigrationResult:
    """The result for one file."""

    file: str
    outcome: Literal["current", "migrated", "refused"]
    schema: int  # the version of this program
    why: str | None = None


class MigrationRun:
    def __init__(self, layout: Layout, open_file: Callable[..., Database]) -> None:
        self._layout = layout
        self._open = open_file

    def run(self, report_progress: ReportProgress = report_nothing) -> list[MigrationResult]:
        """Migrate all files of all users. Each is copied to backups/ first; a file that fails stays unchanged."""
        files = [file for tenant in self._layout.tenants() for file in self._layout.databases(tenant)]
        return [self._migrate(file) for file in track(files, "files", len(files), report_progress)]

    def _migrate(self, file: DatabaseFile) -> MigrationResult:
        schema = file.kind.schema
        try:
            if integrity.is_current(file.path, schema, file.lock):
                return MigrationResult(file.name, "current", schema.version)
            with closing(self._open(file.kind, file.path, missing="refuse", lock=file.lock)) as db, db.read():
                pass  # opening it migrates it
        except AppError as exc:
            return MigrationResult(file.name, "refused", schema.version, exc.message)
        return MigrationResult(file.name, "migrated", schema.version)
