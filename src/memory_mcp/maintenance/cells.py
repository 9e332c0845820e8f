"""Moves of one user's rows from one database to another, while servers run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import Read
from memory_mcp.errors import Conflict
from memory_mcp.maintenance.moves import MoveResult, Rows, Unit, move
from memory_mcp.progress import ReportProgress, report_nothing

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.cells import Cells, Location
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.engines.postgres.tenants import AllTenants


@dataclass(frozen=True)
class UserUnits:
    """One user's rows in one database, to read them."""

    rows: Rows
    user: str

    def units(self) -> Iterator[Unit]:
        return self.rows.units_of(self.user)

    def read(self, unit: Unit) -> AbstractContextManager[Read]:
        return self.rows.read(unit)


@dataclass(frozen=True)
class CellMove:
    cells: Cells
    kinds: Sequence[DatabaseKind]

    def add(self, name: str, url: str, there: PostgresPool) -> None:
        """Add a database, which `there` has opened by its URL. Raises Conflict if it is the home, or if it has users or
        memories already: a move deletes what the user has at its target."""
        from memory_mcp.engines.postgres.tenants import read_all_tenants

        if self.cells.home.is_same_database(there):
            raise Conflict("This is the database of --database-url, the cell 'home'.")
        rows = Rows(self.kinds, partial(read_all_tenants, there))
        if rows.users() != [LOCAL_USER] or any(rows.units_of(LOCAL_USER)):
            raise Conflict("This database has users or memories of its own. Give an empty one.")
        self.cells.directory.add(name, url)

    def run(self, user: str, target: str, report_progress: ReportProgress = report_nothing) -> Iterator[MoveResult]:
        """Move a user's rows to another cell. Meanwhile the user's calls are refused as unavailable. Each row is
        compared after it was written. If it is interrupted, the same command goes on; if it fails, the rows stay where
        they were. Raises Unavailable if another process is moving the user."""
        with self.cells.home.lock(f"cells/{user}"):
            yield from self._move_user(user, target, report_progress)

    def _move_user(self, user: str, target: str, report_progress: ReportProgress) -> Iterator[MoveResult]:
        directory = self.cells.directory
        location = directory.location(user)
        if location.target not in (None, target):
            raise Conflict(f"The user is being moved to {location.target!r}. Finish that first.")
        there = self.cells.pool(target)
        if location.target is None:
            if location.cell == target:
                return
            if self.cells.pool(location.cell).is_same_database(there):
                raise Conflict("Both cells are the same database, so the user is there already. Nothing was changed.")
            with self._write(there) as everything:
                everything.delete(user)  # what an earlier move may have left
        directory.set_location(user, replace(location, target=target))
        try:
            yield from self._copy(user, self.cells.pool(location.cell), there, report_progress)
        except Exception:
            self._set_departed(self.cells.pool(location.cell), user, is_departed=False)
            directory.set_location(user, replace(location, target=None))
            raise
        self._finish(user, location, target)

    def _copy(
        self, user: str, here: PostgresPool, there: PostgresPool, report_progress: ReportProgress
    ) -> Iterator[MoveResult]:
        from memory_mcp.engines.postgres.tenants import read_all_tenants, write_all_tenants

        self._set_departed(here, user, is_departed=True)
        source = UserUnits(Rows(self.kinds, partial(read_all_tenants, here)), user)
        self._wait_for_writes(here, list(source.units()))
        self._set_departed(here, user, is_departed=True)  # with a project that one of these writes created
        target = Rows(self.kinds, partial(write_all_tenants, there))
        yield from move(source, target, report_progress=report_progress)

    def _finish(self, user: str, location: Location, target: str) -> None:
        self._set_departed(self.cells.pool(target), user, is_departed=False)
        self.cells.directory.set_location(user, replace(location, cell=target, target=None, moves=location.moves + 1))
        self._delete_former(location, user)

    def _delete_former(self, location: Location, user: str) -> None:
        with self._write(self.cells.pool(location.cell)) as everything:
            everything.delete(user)

    def _wait_for_writes(self, pool: PostgresPool, units: Sequence[Unit]) -> None:
        """Writes that began before the departure hold these locks; later ones find that the user has departed."""
        with self._write(pool) as everything:
            for unit in units:
                everything.written_rows(unit.kind.tables, unit.tenant).lock(f"{unit.kind.tables.name}/{unit.tenant}")

    def _set_departed(self, pool: PostgresPool, user: str, *, is_departed: bool) -> None:
        with self._write(pool) as everything:
            everything.set_departed(user, is_departed=is_departed)

    def _write(self, pool: PostgresPool) -> AbstractContextManager[AllTenants]:
        from memory_mcp.engines.postgres.tenants import write_all_tenants

        return write_all_tenants(pool)
