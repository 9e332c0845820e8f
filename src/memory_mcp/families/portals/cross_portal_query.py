"""Queries over several portals of one namespace: the others are attached as they are now, and detached again."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from memory_mcp.engines.chdb.sql_policy import ATTACHED_PREFIX
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.folders import Engines, PortalFolder


@contextmanager
def attach(engines: Engines, to: PortalFolder, others: Sequence[PortalFolder]) -> Iterator[dict[str, str]]:
    """The database name of each other portal in the engine of one portal, by its name in a query."""
    with ExitStack() as attached:
        yield {
            other.address.portal: attached.enter_context(
                _attach(engines.get(other), other.path, engines.get(to), to.path)
            )
            for other in others
        }


@contextmanager
def _attach(source: PortalEngine, source_folder: Path, target: PortalEngine, target_folder: Path) -> Iterator[str]:
    """Attach a backup of a portal. A backup into a folder consists of hard links, and can be read without RESTORE."""
    name = f"{ATTACHED_PREFIX}{uuid4().hex}"
    made, moved = source_folder / "staging" / name, target_folder / "staging" / name
    try:
        storage.remove_deleted_rows(source)
        storage.back_up(source, str(made), is_paced=False)
        made.rename(moved)
        storage.attach_portal(target, name, str(moved))
        yield name
    finally:
        storage.detach_portal(target, name)
        for folder in (made, moved):
            shutil.rmtree(folder, ignore_errors=True)
