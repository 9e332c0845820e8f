"""The SQLite driver: connections, transactions, write locks, migrations. Knows no tables."""

from memory_mcp.engines.sqlite.database import Database
from memory_mcp.engines.sqlite.transactions import SqliteRead, SqliteWrite

__all__ = ["Database", "SqliteRead", "SqliteWrite"]
