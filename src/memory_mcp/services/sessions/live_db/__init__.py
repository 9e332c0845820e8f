"""live.db: state of running servers. It may be deleted while no server runs.

access/ and sessions/ own its tables.
"""

from pathlib import Path

from memory_mcp.engines.sqlite import migrations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind

_HERE = Path(__file__).parent
SCHEMA = migrations.load(_HERE / "migrations", application_id=0x4D4D434C)  # "MMCL"
FILE = DatabaseKind("live", SCHEMA, "live.db", is_shared=True, is_cache=True, postgres=_HERE / "postgres")
