"""Moves of all users' data between files and PostgreSQL. Each unit, which is one file or its rows, is moved whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, Protocol

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines import row_copy
from memory_mcp.engines.row_copy import CopiedTable, RowSet
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.catalog import FileNumbers, columns, defer_references, owners
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import Conflict, Unusable
from memory_mcp.families.maintenance import DatabaseFile
from memory_mcp.maintenance.layout import USERS, Layout
from memory_mcp.progress import ProgressCount, ReportProgress, report_nothing
from memory_mcp.services.access import folder_of
from memory_mcp.services.access.storage import users as user_rows

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.tenants import AllTenants

SERVER_TENANT = "server"  # of the server's own rows


@dataclass(frozen=True)
class Unit:
    """What is moved at once: the rows of one file, or of a shared file those of one user."""

    kind: DatabaseKind
    user: str
    part: str = ""  # such as a project's id
    path: str = ""  # of its file below the user's folder

    @property
    def tenant(self) -> str:
        """In PostgreSQL."""
        if self.kind.is_shared and not self.kind.owner_column:
            return SERVER_TENANT
        return f"{self.user}/{self.part}" if self.part else self.user

    @property
    def name(self) -> str:
        """As in a backup."""
        is_top = self.kind.is_shared or self.user == LOCAL_USER
        return self.path if is_top else f"{USERS}/{self.user}/{self.path}"


@dataclass(frozen=True)
class MoveResult:
    name: str
    rows: int
    outcome: Literal["moved", "already there"]


class RowSource(Protocol):
    def units(self) -> Iterable[Unit]:
        """Everything that PostgreSQL can have, and that is there."""

    def read(self, unit: Unit) -> AbstractContextManager[Read]: ...


class RowTarget(Protocol):
    def read(self, unit: Unit) -> AbstractContextManager[Read]: ...

    def write(self, unit: Unit) -> AbstractContextManager[Write]:
        """Commit if the block finishes, undo everything if it raises."""


@dataclass(frozen=True)
class Files:
    """The files of a data directory, which no server uses."""

    layout: Layout
    open_file: Callable[..., Database]

    def units(self) -> Iterator[Unit]:
        for tenant in self.layout.tenants():
            for file in self.layout.databases(tenant, movable(self.layout.kinds)):
                path = file.name.removeprefix(tenant.prefix)
                part = PurePosixPath(path).stem if file.kind.folders else ""
                users = self._owners(file) if file.kind.owner_column else [tenant.user]
                yield from (Unit(file.kind, user, part, path) for user in users)

    def _owners(self, file: DatabaseFile) -> list[str]:
        """The users who have rows in a shared file."""
        with self._open(file) as db, db.read() as tx:
            return owners(tx, str(file.kind.owner_column))

    @contextmanager
    def read(self, unit: Unit) -> Iterator[Read]:
        with self._open(self._file(unit)) as db:
            unit.kind.index_when_opened(db)  # corrects what other programs wrote
            with db.read() as tx:
                yield tx

    @contextmanager
    def write(self, unit: Unit) -> Iterator[Write]:
        with self._open(self._file(unit)) as db, db.write() as tx:
            defer_references(tx)
            yield tx

    def _open(self, file: DatabaseFile) -> closing[Database]:
        return closing(self.open_file(file.kind, file.path, lock=file.lock))

    def _file(self, unit: Unit) -> DatabaseFile:
        user = LOCAL_USER if unit.kind.is_shared else unit.user
        folder = folder_of(self.layout.data_dir, user)
        path = folder / unit.path
        if unit.kind.is_at_db_path:
            path = self.layout.vault_path if user == LOCAL_USER else folder / self.layout.vault_path.name
        return DatabaseFile(path, unit.name, unit.kind, unit.kind.lock(folder, path))


@dataclass(frozen=True)
class Rows:
    """The rows of a PostgreSQL database. `begin` begins a transaction; each unit has one, or all have the same."""

    kinds: Sequence[DatabaseKind]
    begin: Callable[[], AbstractContextManager[AllTenants]]

    def users(self) -> list[str]:
        [kind] = [one for one in self.kinds if one.name == "server"]
        with self.begin() as everything:
            return [user.id for user in user_rows.every(everything.rows(kind.tables, SERVER_TENANT))]

    def units(self) -> Iterator[Unit]:
        for kind in movable(self.kinds):
            if kind.is_shared and not kind.owner_column:
                yield Unit(kind, LOCAL_USER, path=kind.file)
            else:
                yield from (unit for user in self.users() for unit in self._of_user(kind, user))

    def units_of(self, user: str) -> Iterator[Unit]:
        """Everything that a user has."""
        for kind in movable(self.kinds):
            if not kind.is_shared or kind.owner_column:
                yield from self._of_user(kind, user)

    def _of_user(self, kind: DatabaseKind, user: str) -> Iterator[Unit]:
        from memory_mcp.engines.postgres.catalog import has_rows

        with self.begin() as everything:
            if not kind.folders:
                if has_rows(everything.rows(kind.tables, user), kind.tables):
                    yield Unit(kind, user, path=kind.file)
                return
            for registry in self.kinds:
                if registry.part_paths:
                    paths = registry.part_paths(everything.rows(registry.tables, user))
                    yield from (Unit(kind, user, part, path) for part, path in sorted(paths.items()))

    @contextmanager
    def read(self, unit: Unit) -> Iterator[Read]:
        with self.begin() as everything:
            yield everything.rows(unit.kind.tables, unit.tenant)

    @contextmanager
    def write(self, unit: Unit) -> Iterator[Write]:
        from memory_mcp.engines.postgres import catalog

        with self.begin() as everything:
            if unit.part:
                catalog.add_part(everything.rows(unit.kind.tables, unit.user), unit.part)
            tx = everything.written_rows(unit.kind.tables, unit.tenant)
            catalog.add_markers(tx, unit.kind.tables)
            yield tx


def movable(kinds: Iterable[DatabaseKind]) -> list[DatabaseKind]:
    """Those that both engines have, without caches. A registry comes before its parts."""
    return [kind for kind in kinds if kind.postgres and not kind.is_cache]


def move(
    source: RowSource,
    target: RowTarget,
    *,
    replaces: bool = False,
    report_progress: ReportProgress = report_nothing,
) -> Iterator[MoveResult]:
    """Move everything, one unit after the other. A unit whose rows are there already is left as it is, so an
    interrupted move goes on when it is begun again. Raises Conflict if the target has other rows, unless it `replaces`
    them, and Unusable if a row is not the same afterwards: then nothing of its unit is kept."""
    for unit in list(source.units()):
        with source.read(unit) as reading:
            if not replaces and (result := _find_moved(reading, target, unit)):
                yield result
                continue
            with target.write(unit) as writing:
                rows = _copy(reading, writing, unit, report_progress)
        if rows or unit.part:
            yield MoveResult(unit.name, rows, "moved")


def _find_moved(reading: Read, target: RowTarget, unit: Unit) -> MoveResult | None:
    """Whether a unit was moved before. Raises Conflict if there are other rows."""
    with target.read(unit) as there:
        source, rows = _row_sets(reading, there, unit)
        count = rows.count()
        is_new = count <= 1 if unit.kind.name == "server" else count == 0  # a new database has the local user
        if is_new:
            return None
        if difference := row_copy.find_difference(source, rows):
            raise Conflict(
                f"{unit.name}: the target has other rows ({difference} differs). Nothing of it was changed. Move to an "
                "empty database or folder."
            )
        return MoveResult(unit.name, count, "already there")


def _copy(reading: Read, writing: Write, unit: Unit, report_progress: ReportProgress) -> int:
    from memory_mcp.engines.postgres.catalog import merge_word_changes

    source, target = _row_sets(reading, writing, unit)
    count = ProgressCount(unit.name, source.count(), report_progress)
    rows = row_copy.copy(source, target, count.add)
    if unit.kind.rebuild_index:
        unit.kind.rebuild_index(writing)
        if not writing.is_file:
            merge_word_changes(writing, unit.kind.tables)
    row_copy.require_equal(source, target, unit.name)
    return rows


def _row_sets(one: Read, other: Read, unit: Unit) -> tuple[RowSet, RowSet]:
    """The rows of a unit in two databases, at least one of them PostgreSQL."""
    from memory_mcp.engines.postgres.catalog import RowNumbers, copied_tables

    database = other if one.is_file else one
    files = [tx for tx in (one, other) if tx.is_file]
    tables = [
        table
        for table in copied_tables(database, unit.kind.tables, unit.kind.derived_tables)
        if all(_is_in_file(file, table) for file in files)
    ]
    owner = unit.user if unit.kind.owner_column else ""
    return tuple(  # type: ignore[return-value]  # two of them
        RowSet(tx, tables, FileNumbers() if tx.is_file else RowNumbers(), unit.kind.owner_column, owner)
        for tx in (one, other)
    )


def _is_in_file(tx: Read, table: CopiedTable) -> bool:
    found = columns(tx, table.name)
    if found and (missing := [column for column in table.columns if column not in found]):
        raise Unusable(f"The table {table.name} of the file has no column {missing[0]}.")
    return bool(found)
