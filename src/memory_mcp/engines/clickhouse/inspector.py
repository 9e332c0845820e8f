"""What is inspected on a ClickHouse server before a caller's query runs there."""

import re

from memory_mcp.engines.chdb.connections import EngineConnection
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.chdb.query_checks import Inspector
from memory_mcp.engines.chdb.sql_policy import DATABASE

_PARAMETER = re.compile(r"\{(\w+):String\}")


class ServerInspector(Inspector):
    """For one query, which is read by the server's own parser: nothing can look one way to it and another way to us."""

    def __init__(self, connection: EngineConnection, database: str) -> None:
        """`database` is the portal's, which queries call `portal`."""
        from clickhouse_connect.driver.exceptions import DatabaseError

        super().__init__(connection, (DatabaseError, UnicodeDecodeError))
        self._database = database
        self._tables: dict[str, set[str]] = {}

    def read(self, sql: str, /, **parameters: str) -> str:
        """With texts as literals: syntax trees are longer than an address may be."""
        return super().read(_PARAMETER.sub(lambda found: literal(parameters[found[1]]), sql))

    def tables(self, database: str) -> set[str]:
        database = self._database if database == DATABASE else database
        if database not in self._tables:
            self._tables[database] = super().tables(database)
        return self._tables[database]
