"""The vault's file: its migrations, and the work that is done when it is opened."""

from pathlib import Path

from memory_mcp.engines.sqlite import Database, migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.families.vault import storage

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4356)  # "MMCV"


def index_when_opened(db: Database) -> None:
    """Index the rows that another program wrote into the file, so that searches find them."""
    with db.read() as tx:
        if storage.is_indexed(tx):
            return
    with db.write() as writing:
        storage.repair_index(writing)


VAULT_FILE = DatabaseKind(
    "vault",
    SCHEMA,
    "memory.db",
    is_at_db_path=True,
    is_indexed=storage.is_indexed,
    rebuild_index=storage.repair_index,
    on_open=index_when_opened,
)
