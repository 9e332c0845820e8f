"""server.db: users, keys, sign-ins, audit log and held sessions. access/ and sessions/ own its tables."""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind

_HERE = Path(__file__).parent
SCHEMA = migrations.load(_HERE / "migrations", application_id=0x4D4D4353)  # "MMCS"
FILE = DatabaseKind("server", SCHEMA, "server.db", is_shared=True, is_locked_first=True, postgres=_HERE / "postgres")
