"""live.db: what is true only while servers run. It may be deleted whenever none does.

access/ and sessions/ own its tables.
"""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind

SCHEMA = migrations.load(Path(__file__).parent / "migrations", application_id=0x4D4D434C)  # "MMCL"
FILE = DatabaseKind("live", SCHEMA, "live.db", is_shared=True, is_cache=True)
