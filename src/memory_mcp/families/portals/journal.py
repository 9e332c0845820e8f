"""The last step of an import, and of a write that widens columns: staged tables get their names in a portal, all of
them, even if a process ends meanwhile.

The engine can rename one table in one step, not several. So a file in the portal's folder lists them before the first
one is renamed, and stays until the last one is. The next call that opens the portal and finds the file finishes the
step.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.folders import PortalFolder

JOURNAL = "import.json"


@dataclass(frozen=True)
class StagedTable:
    """A finished table under a temporary name."""

    staged: str
    uuid: str
    table: str  # the name it is to have


def exists(folder: PortalFolder) -> bool:
    return (folder.path / JOURNAL).is_file()


def write(folder: PortalFolder, tables: Sequence[StagedTable]) -> None:
    """Begin to rename these tables. The journal is on the disk when this returns."""
    content = json.dumps({"tables": [asdict(table) for table in tables]}).encode()
    with Root(folder.path).folder(()) as entry:
        atomic_write.write(entry.sibling(JOURNAL), content, durable=True)


def rename_staged(folder: PortalFolder, engine: PortalEngine) -> list[str]:
    """Give all tables of the journal their names, and drop those they replace. Returns the names."""
    content = json.loads((folder.path / JOURNAL).read_text(encoding="utf-8"))
    tables = [StagedTable(**one) for one in content["tables"]]
    for one in tables:
        storage.rename_staged(engine, one.staged, one.uuid, one.table)
    for one in tables:
        storage.drop_table(engine, one.staged)
    return [one.table for one in tables]


def remove(folder: PortalFolder) -> None:
    (folder.path / JOURNAL).unlink(missing_ok=True)
