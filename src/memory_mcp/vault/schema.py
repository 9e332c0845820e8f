"""The vault's file: its migrations, and what is done when it is opened."""

from pathlib import Path

from memory_mcp.sqlite import Database, migrations
from memory_mcp.vault import storage

SCHEMA = migrations.load(Path(__file__).parent / "migrations")


def made_whole(db: Database) -> Database:
    """Index what another program wrote into the file, so that it is found like everything else."""
    with db.read() as tx:
        if storage.is_indexed(tx):
            return db
    with db.write() as writing:
        storage.index_the_missing(writing)
    return db
