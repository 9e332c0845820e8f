"""The graph's two kinds of files: the registry of projects, and one file for each project."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import Write
from memory_mcp.families.graph import adoption, storage

_HERE = Path(__file__).parent
REGISTRY = migrations.load(_HERE / "registry", 0x4D4D4352, adopt=adoption.adopt_registry)  # "MMCR"
PROJECT = migrations.load(_HERE / "project", 0x4D4D4347, adopt=adoption.adopt_project)  # "MMCG"


def rebuild_index(tx: Write) -> None:
    """Fill a full-text index that is empty."""
    storage.clear_index(tx)
    if tx.is_file:
        storage.repair_index(tx)
    else:
        storage.index_all(tx)


REGISTRY_FILE = DatabaseKind(
    "registry",
    REGISTRY,
    "_meta.db",
    is_locked_first=True,
    postgres=_HERE / "postgres" / "registry",
    part_paths=storage.recorded_paths,
)
PROJECT_FILE = DatabaseKind(
    "project",
    PROJECT,
    ".db",
    folders=("projects", "archive"),
    postgres=_HERE / "postgres" / "project",
    derived_tables=("indexed",),
    is_indexed=storage.is_indexed,
    rebuild_index=rebuild_index,
    repair_index=storage.repair_index,
)
