"""Queries of callers, checked before they run."""

import json
import re
import threading
from collections.abc import Mapping
from typing import Any

from memory_mcp.engines.chdb import error_messages, sql_policy
from memory_mcp.engines.chdb.connections import CHDB_ERRORS, EngineConnection
from memory_mcp.engines.chdb.data_types import DataTypes
from memory_mcp.engines.chdb.sql_policy import DATABASE

MAX_CACHED_QUERIES = 1000
_WRITES = re.compile(
    r"\s*(?:INSERT|UPDATE|DELETE|DROP|CREATE|ALTER|TRUNCATE|REPLACE|MERGE|RENAME|GRANT|REVOKE|ATTACH|DETACH|OPTIMIZE)\b",
    re.IGNORECASE,
)


class Inspector:
    """A connection that inspects queries and tables while other statements run."""

    def __init__(self, connection: EngineConnection, errors: tuple[type[Exception], ...] = CHDB_ERRORS) -> None:
        """`errors` are those of statements that fail."""
        self.errors = errors
        self._connection = connection
        self._lock = threading.Lock()

    def read(self, sql: str, /, **parameters: str) -> str:
        """The result of a statement of ours, as text."""
        format_ = "" if " FORMAT " in sql else " FORMAT TSVRaw"
        with self._lock:
            return self._connection.run(sql + format_, parameters).decode()

    def tables(self, database: str) -> set[str]:
        return set(self.read("SELECT name FROM system.tables WHERE database = {name:String}", name=database).split())

    def parse(self, sql: str) -> dict[str, Any]:
        """The syntax tree of a statement. Raises sql_policy.QueryRefused if it is not a single SELECT."""
        try:
            tree: dict[str, Any] = json.loads(self.read("SELECT parseQueryToJSON({sql:String})", sql=sql))
        except self.errors as exc:
            _check_length(exc)
            message = error_messages.plain_message(exc)
            if error_messages.SYNTAX_ERROR in message and not _WRITES.match(sql):
                raise sql_policy.QueryRefused(f"This cannot be read as SQL: {message}", "invalid") from exc
            raise sql_policy.QueryRefused(f"This is not one SELECT: {message}") from exc
        return tree

    def close(self) -> None:
        self._connection.close()


class QueryChecks:
    """Which queries are harmless. Results are cached until tables change."""

    def __init__(self, inspector: Inspector, functions: sql_policy.Functions | None = None) -> None:
        """`functions` are those of the engine, if they are known."""
        self._inspector = inspector
        self.functions = functions or list_functions(inspector)
        self._checked: dict[str, sql_policy.CheckedQuery] = {}

    def clear(self) -> None:
        """Tables have changed: every query is checked again."""
        self._checked.clear()

    def check(self, sql: str, attached: Mapping[str, str]) -> sql_policy.CheckedQuery:
        """A query as the engine itself formats it, once it is known to be harmless. Raises
        sql_policy.QueryRefused.

        `attached` are the databases of other portals that it may read, by the names that it uses for them.
        """
        if attached:
            return self._check(sql, attached)
        checked = self._checked.get(sql)
        if checked is None:
            if len(self._checked) >= MAX_CACHED_QUERIES:
                self._checked.clear()
            checked = self._checked[sql] = self._check(sql, attached)
        return checked

    def _check(self, sql: str, attached: Mapping[str, str]) -> sql_policy.CheckedQuery:
        if len(sql) > sql_policy.MAX_QUERY_CHARS or "\0" in sql:
            raise sql_policy.QueryRefused(f"A query has at most {sql_policy.MAX_QUERY_CHARS} characters, and no NUL.")
        tables = {database: self._inspector.tables(database) for database in (DATABASE, *attached.values())}
        tree = sql_policy.renamed(self._inspector.parse(sql), attached, tables)
        sql_policy.check(tree, self.functions, tables)
        try:
            text = self._inspector.read("SELECT formatQueryFromJSON({tree:String})", tree=json.dumps(tree))
        except self._inspector.errors as exc:
            _check_length(exc)
            raise
        text = text.removesuffix("\n")
        if (again := self._inspector.parse(text)) != tree:  # the formatted query is what runs, so it is checked, too
            sql_policy.check(again, self.functions, tables)
        return sql_policy.CheckedQuery(text, sql_policy.parameters(again))


def list_functions(inspector: Inspector) -> sql_policy.Functions:
    columns = "name, alias_to, categories, is_aggregate, case_insensitive, origin"
    rows = inspector.read(f"SELECT {columns} FROM system.functions FORMAT JSONEachRow").splitlines()
    types = "SELECT name, alias_to, case_insensitive FROM system.data_type_families FORMAT JSONEachRow"
    combinators = "SELECT name FROM system.aggregate_function_combinators WHERE NOT is_internal"
    return sql_policy.Functions.listed(
        map(json.loads, rows),
        inspector.read(combinators).split(),
        inspector.read("SELECT name FROM system.table_functions").split(),
        DataTypes.listed(map(json.loads, inspector.read(types).splitlines())),
    )


def _check_length(exc: Exception) -> None:
    """Raises sql_policy.QueryTooLarge if the engine reports that a query is too long or too deep."""
    if (message := error_messages.plain_message(exc)) in (error_messages.TOO_DEEP, error_messages.TOO_LONG):
        raise sql_policy.QueryTooLarge(message) from exc
