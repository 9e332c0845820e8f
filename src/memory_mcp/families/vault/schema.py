"""The vault's file: its migrations, and the work that is done when it is opened."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import Write
from memory_mcp.families.vault import storage

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4356)  # "MMCV"


def rebuild_index(tx: Write) -> None:
    """Fill the full-text indexes, which are empty."""
    if tx.is_file:
        storage.repair_index(tx)
    else:
        storage.index_all(tx)


VAULT_FILE = DatabaseKind(
    "vault",
    SCHEMA,
    "memory.db",
    is_at_db_path=True,
    postgres=Path(__file__).parent / "postgres",
    is_indexed=storage.is_indexed,
    rebuild_index=rebuild_index,
    repair_index=storage.repair_index,
)
