"""The vault's file: its migrations, and what is done when it is opened."""

from pathlib import Path

from memory_mcp.engines.sqlite import Database, Read, Write, migrations
from memory_mcp.families.vault import storage

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4356)  # "MMCV"


def index_when_opened(db: Database) -> None:
    """Index what another program wrote into the file, so that it is found like everything else."""
    with db.read() as tx:
        if storage.is_indexed(tx):
            return
    with db.write() as writing:
        storage.index_all(writing)


def is_indexed(tx: Read) -> bool:
    """Whether everything can be found by its words."""
    return storage.is_indexed(tx)


def index_anew(tx: Write) -> None:
    """Fill indexes of words that are empty."""
    storage.index_all(tx)
