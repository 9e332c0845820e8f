"""The schemas of stores.db, the cache of the stores' files, and of the journal of writes."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D434D)  # "MMCM"
STORES_CACHE = DatabaseKind("stores", SCHEMA, "stores.db", is_cache=True, is_per_server=True)

JOURNAL_SCHEMA = migrations.load(Path(__file__).parent / "journal", application_id=0x4D4D4357)  # "MMCW"
STORE_WRITES = DatabaseKind(
    "store_writes",
    JOURNAL_SCHEMA,
    "store_writes.db",
    may_lose_last_writes=True,
    postgres=Path(__file__).parent / "postgres",
)
