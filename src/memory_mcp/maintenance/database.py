"""Backup, restore and checks of a PostgreSQL database, in the formats of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.clock import Clock
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.files.file_tree import LeftOut
from memory_mcp.engines.files.staging import staging, translate_write_errors
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.errors import Unavailable
from memory_mcp.families.context import open_database
from memory_mcp.families.maintenance import Finding
from memory_mcp.families.portals.operations import Portals
from memory_mcp.maintenance import archive
from memory_mcp.maintenance.backup import Backup, check_target
from memory_mcp.maintenance.layout import Layout
from memory_mcp.maintenance.migration import MigrationResult
from memory_mcp.maintenance.model import BackupResult, Diagnosis, RestoreResult
from memory_mcp.maintenance.moves import SERVER_TENANT, Files, MoveResult, Rows, Unit, movable, move
from memory_mcp.maintenance.restore import ASIDE, KEYS_NOTICE, Restore
from memory_mcp.progress import ReportProgress, report_nothing, track
from memory_mcp.settings import Settings
from memory_mcp.system.paths import expand_home

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.cells import Cells
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.engines.postgres.tenants import AllTenants

NOT_HERE = "it is not in PostgreSQL: restore the backup into a data directory for it"


@dataclass(frozen=True)
class DatabaseContent:
    """Everything in a PostgreSQL database."""

    pool: PostgresPool
    settings: Settings
    kinds: tuple[DatabaseKind, ...]
    clock: Clock
    running_servers: Callable[[], int]  # how many servers use the database
    create_portals: Callable[[Settings], Portals]  # of a data directory
    cells: Cells  # the databases with users' rows, of which `pool` is one

    def rows(self, everything: AllTenants) -> Rows:
        return Rows(self.kinds, lambda: nullcontext(everything))

    @contextmanager
    def read(self) -> Iterator[AllTenants]:
        """As it is at one moment."""
        from memory_mcp.engines.postgres.tenants import read_all_tenants

        with read_all_tenants(self.pool) as everything:
            yield everything

    @contextmanager
    def write(self) -> Iterator[AllTenants]:
        from memory_mcp.engines.postgres.tenants import write_all_tenants

        with write_all_tenants(self.pool) as everything:
            yield everything

    def require_all_users(self) -> None:
        """Raises Unavailable if the rows of a user are in another database: they would be missing."""
        if moved := self.cells.directory.moved_users():
            raise Unavailable(
                f"The rows of users such as {moved[0]} ({len(moved)} in all) are in other cells, which this does not "
                "reach. Use PostgreSQL's own tools, such as pg_dump, for each database, or move these users back with "
                "`memory-mcp cells move`."
            )

    def require_no_servers(self) -> None:
        """Raises Unavailable while servers run: they would write to what is moved or replaced."""
        if count := self.running_servers():
            raise Unavailable(
                f"{count} servers use this database, or ended without saying so in the last half minute. Stop them "
                "first."
            )

    @contextmanager
    def files(self, folder: Path) -> Iterator[StagedFiles]:
        """The files of a data directory, which is created if it is missing."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data_directory.prepare(folder)
        chosen = self.settings.model_copy(update={"data_dir": folder, "db_path": None, "database_url": None})
        layout = Layout(folder, chosen.vault_path, self.kinds)
        with closing(self.create_portals(chosen)) as portals:
            yield StagedFiles(layout, partial(open_database, chosen, self.clock), portals)


@dataclass(frozen=True)
class StagedFiles(Files):
    portals: Portals


@dataclass(frozen=True)
class DatabaseBackup:
    content: DatabaseContent

    def make(self, target: Path, report_progress: ReportProgress = report_nothing) -> BackupResult:
        """Write everything that PostgreSQL has to a file, as it is at one moment. Servers may run meanwhile."""
        target, content = expand_home(target).absolute(), self.content
        content.require_all_users()
        check_target(target)
        with (
            translate_write_errors(target),
            staging(target.parent) as folder,
            content.files(folder / "data") as files,
        ):
            with content.read() as everything:
                at = content.clock()
                for _ in move(content.rows(everything), files, report_progress=report_progress):
                    pass
            return Backup(files.layout, files.portals, lambda: at).make(target, report_progress)


@dataclass(frozen=True)
class DatabaseRestore:
    content: DatabaseContent

    def run(self, file: Path, report_progress: ReportProgress = report_nothing) -> RestoreResult:
        """Replace all rows by a backup's, in one transaction, after checking every part of it. A backup of the former
        rows is written to the data directory first. Raises Unavailable while servers run."""
        content, data_dir = self.content, self.content.settings.data_dir
        content.require_all_users()
        content.require_no_servers()
        with translate_write_errors(data_dir), staging(data_dir) as folder, content.files(folder / "data") as files:
            Restore(files.layout, files.portals, content.clock).run(file, report_progress)
            with archive.open_backup(file, content.kinds) as reading:
                manifest = reading.manifest
            aside = data_dir / f"{ASIDE}{content.clock():%Y%m%dT%H%M%S%f}.zip"
            DatabaseBackup(content).make(aside, report_progress)
            self._replace(files, report_progress)
        moved = {kind.name for kind in movable(content.kinds)}
        unmoved = (LeftOut(entry.path, NOT_HERE) for entry in manifest.files if entry.kind not in moved)
        notices = (KEYS_NOTICE,) if any(entry.kind == "server" for entry in manifest.files) else ()
        left_out = (*manifest.left_out, *unmoved)
        return RestoreResult(data_dir, len(manifest.files), manifest.cut_at, aside, notices, left_out)

    def _replace(self, files: Files, report_progress: ReportProgress) -> None:
        with self.content.write() as everything:
            rows = self.content.rows(everything)
            for user in rows.users():
                everything.delete(user)
            for _ in move(files, rows, replaces=True, report_progress=report_progress):
                pass


@dataclass(frozen=True)
class EngineMove:
    """Moves between the files of a data directory and PostgreSQL."""

    content: DatabaseContent

    def from_files(self, layout: Layout, report_progress: ReportProgress = report_nothing) -> Iterator[MoveResult]:
        """Move all rows to PostgreSQL, a file at a time. No server may use the files."""
        content = self.content
        content.require_all_users()
        content.require_no_servers()
        files = Files(layout, partial(open_database, content.settings, content.clock))
        yield from move(files, Rows(content.kinds, content.write), report_progress=report_progress)

    def to_files(self, folder: Path, report_progress: ReportProgress = report_nothing) -> Iterator[MoveResult]:
        """Move all rows to the files of a data directory."""
        content = self.content
        content.require_all_users()
        content.require_no_servers()
        with content.files(folder) as files, content.read() as everything:
            yield from move(content.rows(everything), files, report_progress=report_progress)


@dataclass(frozen=True)
class DatabaseMigration:
    content: DatabaseContent

    def run(self, report_progress: ReportProgress = report_nothing) -> list[MigrationResult]:
        """Opening the database has brought all tables up to date."""
        tables = [kind.tables for kind in self.content.kinds if kind.postgres]
        return [MigrationResult(one.schema, "current", one.steps()[-1][0]) for one in tables]


@dataclass(frozen=True)
class DatabaseDoctor:
    content: DatabaseContent

    def check(self, *, repair: bool, report_progress: ReportProgress = report_nothing) -> Diagnosis:
        """Check indexes and the full-text index of every user, in every cell. With `repair`, fill the latter. A cell
        that cannot be reached is a problem, and the others are checked all the same. Row-level security is checked when
        a database is opened."""
        content, checked, found = self.content, list[_CheckedCell](), list[Finding]()
        with content.read() as everything:
            rows = content.rows(everything)
            users = rows.users()
            checked.append(_CheckedCell(content, "", list(rows.units())))
        directory = content.cells.directory
        for cell in directory.cells():
            try:
                there = replace(content, pool=content.cells.pool(cell.name))
                with there.read() as everything:
                    rows = there.rows(everything)
                    units = [unit for user in directory.users_in(cell.name) for unit in rows.units_of(user)]
            except Unavailable as exc:
                found.append(_problem("cell", cell.name, exc.message))
            else:
                checked.append(_CheckedCell(there, f"{cell.name}: ", units))
        for one in checked:
            found += one.check(repair=repair, report_progress=report_progress)
        counts = {"users": len(users), "row sets": sum(len(one.units) for one in checked)}
        cells = {"cells": len(checked)} if len(directory.cells()) else {}
        return Diagnosis(counts | cells, tuple(found))


@dataclass(frozen=True)
class _CheckedCell:
    content: DatabaseContent
    prefix: str  # of names in findings
    units: list[Unit]

    def check(self, *, repair: bool, report_progress: ReportProgress) -> list[Finding]:
        found = self._check_indexes()
        for unit in track(self.units, f"{self.prefix}full-text indexes", len(self.units), report_progress):
            found += self._check_words(unit, repair=repair)
        return found

    def _check_indexes(self) -> list[Finding]:
        from memory_mcp.engines.postgres import catalog

        with self.content.read() as everything:
            tx = everything.rows(movable(self.content.kinds)[0].tables, SERVER_TENANT)
            invalid = catalog.invalid_indexes(tx)
        return [_problem("index", f"{self.prefix}{name}", "it is not valid; REINDEX it") for name in invalid]

    def _check_words(self, unit: Unit, *, repair: bool) -> list[Finding]:
        from memory_mcp.engines.postgres import catalog

        if unit.kind.is_indexed is None or unit.kind.rebuild_index is None:
            return []
        with self.content.write() as everything:
            tx = everything.written_rows(unit.kind.tables, unit.tenant)
            is_indexed = unit.kind.is_indexed(tx)
            if is_indexed and catalog.has_exact_counts(tx, unit.kind.tables):
                return []
            if repair:
                catalog.clear_words(tx, unit.kind.tables)
                unit.kind.rebuild_index(tx)
                catalog.merge_word_changes(tx, unit.kind.tables)
        what = "its counts of words differ from its texts" if is_indexed else "its full-text index is not complete"
        problem = _problem("index", f"{self.prefix}{unit.name}", what)
        return [replace(problem, state="repaired" if repair else "problem", repairable=True)]


def _problem(check: str, place: str, message: str) -> Finding:
    return Finding(check, place, "problem", message)
