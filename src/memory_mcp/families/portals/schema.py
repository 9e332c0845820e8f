"""The schema of the journal of writes to portals. Portals themselves are in folders, with an engine each."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind

JOURNAL_SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4354)  # "MMCT"
PORTAL_WRITES = DatabaseKind(
    "portal_writes",
    JOURNAL_SCHEMA,
    "portal_writes.db",
    may_lose_last_writes=True,
    postgres=Path(__file__).parent / "postgres",
)
