"""The SQLite driver: connections, transactions, write locks, migrations. Knows no tables."""

from memory_mcp.engines.sqlite.database import Database, Read, Write

__all__ = ["Database", "Read", "Write"]
