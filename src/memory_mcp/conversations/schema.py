"""conversations.db: which conversations hooks saw, and what they gave them."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D4356)  # "MMCV"
FILE = DatabaseKind("conversations", SCHEMA, "conversations.db", postgres=Path(__file__).parent / "postgres")
