"""The graph's two kinds of files: the registry of projects, and one file for each project."""

from pathlib import Path

from memory_mcp.graph import storage
from memory_mcp.sqlite import Database, Read, Write, migrations

REGISTRY = migrations.load(Path(__file__).parent / "registry", application_id=0x4D4D4352)  # "MMCR"
PROJECT = migrations.load(Path(__file__).parent / "project", application_id=0x4D4D4347)  # "MMCG"


def index_when_opened(db: Database) -> None:
    """Index what another program wrote into a project's file, so that it is found like everything else."""
    with db.read() as tx:
        if storage.is_indexed(tx):
            return
    with db.write() as writing:
        storage.index_all(writing)


def is_indexed(tx: Read) -> bool:
    """Whether everything can be found by its words."""
    return storage.is_indexed(tx)


def index_anew(tx: Write) -> None:
    """Fill an index of words that is empty."""
    storage.forget_index(tx)
    storage.index_all(tx)
