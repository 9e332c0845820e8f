"""Queries over several portals of one namespace: the others are lent as they are now, and given back."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from memory_mcp.engines.chdb.client import EngineLine
from memory_mcp.engines.chdb.sql_policy import LENT
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.folders import EngineLines, PortalFolder


@contextmanager
def lent(lines: EngineLines, to: PortalFolder, others: Sequence[PortalFolder]) -> Iterator[dict[str, str]]:
    """Under which name the engine of one portal sees each of the others, by what a query calls it."""
    with ExitStack() as giving_back:
        yield {
            other.address.portal: giving_back.enter_context(_lent(lines.get(other), other.path, lines.get(to), to.path))
            for other in others
        }


@contextmanager
def _lent(source: EngineLine, source_folder: Path, target: EngineLine, target_folder: Path) -> Iterator[str]:
    """A backup into a folder is made of links, and can be read as it lies."""
    name = f"{LENT}{uuid4().hex}"
    made, moved = source_folder / "staging" / name, target_folder / "staging" / name
    try:
        storage.back_up(source, str(made))
        made.rename(moved)
        storage.open_lent(target, name, str(moved))
        yield name
    finally:
        storage.close_lent(target, name)
        for folder in (made, moved):
            shutil.rmtree(folder, ignore_errors=True)
