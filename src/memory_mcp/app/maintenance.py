"""Maintenance of a whole data directory: backup, restore, doctor and migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.app.access import use_data_dir
from memory_mcp.app.composition import App, embedding_options
from memory_mcp.app.older_servers import database_kinds
from memory_mcp.app.postgres import create_cells, open_pool, shared_rows
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, utc_now
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.families import registry
from memory_mcp.families.context import open_database
from memory_mcp.families.family import Family
from memory_mcp.families.portals.composition import create_portals
from memory_mcp.families.portals.operations import Portals
from memory_mcp.services.access import folder_of
from memory_mcp.services.sessions import LeasedServers, Servers, live_db
from memory_mcp.settings import Settings

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.maintenance import Backup, Doctor, Layout, MigrationRun, Restore
    from memory_mcp.maintenance.cells import CellMove
    from memory_mcp.maintenance.database import (
        DatabaseBackup,
        DatabaseContent,
        DatabaseDoctor,
        DatabaseMigration,
        DatabaseRestore,
        EngineMove,
    )


@dataclass(frozen=True)
class Maintenance:
    backup: Backup | DatabaseBackup
    restore: Restore | DatabaseRestore
    doctor: Doctor | DatabaseDoctor
    migration: MigrationRun | DatabaseMigration


@contextmanager
def open_maintenance(
    settings: Settings,
    *,
    alone: bool = False,
    former_vault: Path | None = None,
    clock: Clock = utc_now,
    families: dict[str, Family[Any]] = registry.FAMILIES,
) -> Iterator[Maintenance]:
    """The parts that work on the files themselves. Opens no database, so it works with damaged files.

    `alone` is for a restore, which checks itself that no other process uses the data directory; `former_vault` is the
    vault's file that it replaces, if that is not the one in the settings.
    """
    from memory_mcp import maintenance  # a server that starts does not need it

    if settings.database_url:
        with _open_database_maintenance(settings, clock, families) as parts:
            yield parts
        return
    layout = data_layout(settings, families.values())
    open_file = partial(open_database, settings, clock)
    with ExitStack() as stack:
        if not alone:
            stack.enter_context(use_data_dir(settings.data_dir))
        portals = stack.enter_context(closing(_file_portals(settings, clock)))
        yield Maintenance(
            backup=maintenance.Backup(layout, portals, clock),
            restore=maintenance.Restore(layout, portals, clock, former_vault),
            doctor=maintenance.Doctor(
                layout,
                families.values(),
                settings,
                clock,
                open_file=open_file,
                embedding=embedding_options(settings),
            ),
            migration=maintenance.MigrationRun(layout, open_file),
        )


@contextmanager
def _open_database_maintenance(
    settings: Settings, clock: Clock, families: dict[str, Family[Any]]
) -> Iterator[Maintenance]:
    from memory_mcp.maintenance.database import DatabaseBackup, DatabaseDoctor, DatabaseMigration, DatabaseRestore

    with use_data_dir(settings.data_dir), _open_content(settings, clock, families) as content:
        data_directory.prepare(settings.data_dir)
        yield Maintenance(
            DatabaseBackup(content), DatabaseRestore(content), DatabaseDoctor(content), DatabaseMigration(content)
        )


@contextmanager
def open_engine_move(
    settings: Settings, *, clock: Clock = utc_now, families: dict[str, Family[Any]] = registry.FAMILIES
) -> Iterator[EngineMove]:
    """Moves between files and the database of the settings. The caller has exclusive use of the files."""
    from memory_mcp.maintenance.database import EngineMove

    with _open_content(settings, clock, families) as content:
        yield EngineMove(content)


@contextmanager
def _open_content(settings: Settings, clock: Clock, families: dict[str, Family[Any]]) -> Iterator[DatabaseContent]:
    kinds = database_kinds(families.values())
    with open_pool(settings, clock, kinds) as pool:
        content = _database_content(settings, pool, clock, kinds)
        with closing(content.cells):
            yield content


def _database_content(
    settings: Settings, pool: PostgresPool, clock: Clock, kinds: tuple[DatabaseKind, ...]
) -> DatabaseContent:
    from memory_mcp.maintenance.database import DatabaseContent

    servers = LeasedServers(shared_rows(settings, pool, live_db.FILE), Servers(settings.data_dir / "servers"))
    cells = create_cells(pool, kinds)
    return DatabaseContent(
        pool, settings, kinds, clock, lambda: len(servers.running()), partial(_file_portals, clock=clock), cells
    )


@contextmanager
def open_cells(
    settings: Settings, *, clock: Clock = utc_now, families: dict[str, Family[Any]] = registry.FAMILIES
) -> Iterator[CellMove]:
    """The databases with users' rows, and moves between them."""
    from memory_mcp.maintenance.cells import CellMove

    kinds = database_kinds(families.values())
    with open_pool(settings, clock, kinds) as pool, closing(create_cells(pool, kinds)) as cells:
        yield CellMove(cells, kinds)


def backup_of(app: App, clock: Clock = utc_now) -> Backup | DatabaseBackup:
    """The backup of a running server's data."""
    from memory_mcp import maintenance

    families = [one.family for one in app.opened.values()]
    if app.postgres is not None:
        from memory_mcp.maintenance.database import DatabaseBackup

        return DatabaseBackup(_database_content(app.settings, app.postgres, clock, database_kinds(families)))
    return maintenance.Backup(data_layout(app.settings, families), app.portals, clock)


def data_layout(settings: Settings, families: Iterable[Family[Any]] = registry.FAMILIES.values()) -> Layout:
    from memory_mcp import maintenance

    return maintenance.Layout(settings.data_dir, settings.vault_path, database_kinds(families))


def _file_portals(settings: Settings, clock: Clock) -> Portals:
    """Portals in files. Those on a ClickHouse server are backed up and restored by its own means."""
    chosen = settings.model_copy(update={"portals_url": None})
    return create_portals(chosen, partial(folder_of, settings.data_dir), Changes(), clock)
