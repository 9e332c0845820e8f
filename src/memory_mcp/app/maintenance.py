"""Maintenance of a whole data directory: backup, restore, doctor and migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.access import folder_of
from memory_mcp.app.access import use_data_dir
from memory_mcp.app.composition import App, embedding_options
from memory_mcp.app.older_servers import database_kinds
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, utc_now
from memory_mcp.errors import Unavailable
from memory_mcp.families import registry
from memory_mcp.families.context import open_database
from memory_mcp.families.family import Family
from memory_mcp.families.portals.composition import create_portals
from memory_mcp.settings import Settings

if TYPE_CHECKING:
    from memory_mcp.maintenance import Backup, Doctor, Layout, MigrationRun, Restore


@dataclass(frozen=True)
class Maintenance:
    backup: Backup
    restore: Restore
    doctor: Doctor
    migration: MigrationRun


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

    refuse_with_database_url(settings)
    layout = _layout(settings, families.values())
    open_file = partial(open_database, settings, clock)
    with ExitStack() as stack:
        if not alone:
            stack.enter_context(use_data_dir(settings.data_dir))
        portals = stack.enter_context(
            closing(create_portals(settings, partial(folder_of, settings.data_dir), Changes(), clock))
        )
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


def backup_of(app: App, clock: Clock = utc_now) -> Backup:
    """The backup of a running server's data."""
    from memory_mcp import maintenance

    refuse_with_database_url(app.settings)
    families = [one.family for one in app.opened.values()]
    return maintenance.Backup(_layout(app.settings, families), app.portals, clock)


def refuse_with_database_url(settings: Settings) -> None:
    """Raises Unavailable where work on the data directory's files would miss what PostgreSQL has."""
    if settings.database_url:
        raise Unavailable("This works only on files so far. Use PostgreSQL's own tools, such as pg_dump.")


def _layout(settings: Settings, families: Iterable[Family[Any]]) -> Layout:
    from memory_mcp import maintenance

    return maintenance.Layout(settings.data_dir, settings.vault_path, database_kinds(families))
