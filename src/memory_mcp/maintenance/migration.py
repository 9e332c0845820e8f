"""Bringing every file to this version's schema at once, instead of each when it is first used."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from memory_mcp.engines.sqlite import Database, integrity
from memory_mcp.errors import AppError
from memory_mcp.families.maintenance import DatabaseFile
from memory_mcp.maintenance.layout import Layout


@dataclass(frozen=True)
class MigrationResult:
    """A file, and what came of it."""

    file: str
    outcome: Literal["current", "migrated", "refused"]
    schema: int  # the version it should have now
    why: str | None = None


class MigrationRun:
    def __init__(self, layout: Layout, open_file: Callable[..., Database]) -> None:
        self._layout = layout
        self._open = open_file

    def run(self) -> Iterator[MigrationResult]:
        """All files of all users. A copy of each that changes goes to backups/ first; one that fails is left."""
        for tenant in self._layout.tenants():
            yield from map(self._migrate, self._layout.databases(tenant))

    def _migrate(self, file: DatabaseFile) -> MigrationResult:
        schema = file.kind.schema
        try:
            if integrity.is_current(file.path, schema, file.lock):
                return MigrationResult(file.name, "current", schema.version)
            with closing(self._open(file.kind, file.path, missing="refuse", lock=file.lock)) as db, db.read():
                pass  # opening it was all
        except AppError as exc:
            return MigrationResult(file.name, "refused", schema.version, exc.message)
        return MigrationResult(file.name, "migrated", schema.version)
