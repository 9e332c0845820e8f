"""The engine of a portal that is a database on a ClickHouse server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from memory_mcp.engines.chdb import failures
from memory_mcp.engines.chdb.connections import Reader
from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from memory_mcp.engines.chdb.parameters import Unfit
from memory_mcp.engines.chdb.process import RETRY_AFTER_S, EngineRules
from memory_mcp.engines.chdb.query_checks import QueryChecks
from memory_mcp.engines.chdb.sql_policy import DATABASE, QueryRefused, QueryTooLarge
from memory_mcp.engines.clickhouse.inspector import ServerInspector
from memory_mcp.engines.clickhouse.server import QUOTA_S, ClickHouseServer, OwnerConnection, ReaderConnection
from memory_mcp.engines.portal_engine import (
    MAX_STATEMENT_S,
    EngineInterrupted,
    Overdue,
    PortalEngine,
    busy,
    deleted,
    failed,
    timed_out,
)
from memory_mcp.errors import Unavailable

# The tree of a query is checked in this process, whose stack is shorter than that of an engine.
_TOO_DEEP = (
    "The query is nested too deeply: 150 operators or parentheses in a row fit, 100 functions in each other and 30 "
    "subqueries. Use IN or a list for a long chain."
)
# Error codes of ClickHouse.
_UNKNOWN_DATABASE = 81
_QUOTA_EXCEEDED = 201
_TOO_MANY_QUERIES = 202
_DENIED = {192, 194, 497, 516}  # unknown user, wrong password, missing right


class ServerEngine(PortalEngine):
    marks_rows: ClassVar[bool] = False

    def __init__(
        self,
        server: ClickHouseServer,
        database: str | None,
        tenant: str,
        limits: Mapping[str, int],
        rules: EngineRules,
        user_memory: MemoryBudget | None = None,
    ) -> None:
        """`tenant`: whose quota queries count in."""
        super().__init__(limits, rules, user_memory)
        self._server = server
        self.database = database or ""
        self._tenant = tenant

    def _query(self, sql: str, parameters: dict[str, Any], attached: Mapping[str, str], field: str) -> bytes:
        with self._translate_errors(field):
            limits, check = self._limits, self._checks().check
            connection = ReaderConnection(self._server, self.database, self._tenant, limits, self._check_continue)
            return Reader(connection, check).query(sql, parameters, {DATABASE: self.database, **attached})

    def _run(self, sql: str, parameters: dict[str, Any], data: bytes, *, once: bool = False) -> bytes:
        settings = self._settings()
        timeout_s = settings.get("max_execution_time", MAX_STATEMENT_S)
        with self._translate_errors(None, once=once):
            return self._owner(timeout_s, settings).run(sql, parameters, data)

    def _export(self, sql: str, path: Path, format_: str, limits: Mapping[str, int], field: str) -> int:
        settings = {
            "output_format_json_array_of_rows": int(format_ == "json"),
            "output_format_json_validate_utf8": 0,  # a file that is imported again keeps its bytes
            **limits,
        }
        written_as = {"json": "JSONEachRow", "lines": "JSONEachRow"}.get(format_, format_)
        with self._translate_errors(field):
            text = self._checks().check(sql, {DATABASE: self.database}).text
            connection = ReaderConnection(self._server, self.database, self._tenant, settings, self._check_continue)
            return connection.save(f"{text}\nFORMAT {written_as}", path)

    def run_on_new_connection(self, sql: str) -> None:
        raise _unsupported()

    def back_up(self, sql: str, path: str, *, is_paced: bool, about: Mapping[str, Any] | None = None) -> None:
        raise _unsupported()

    def check_archive(self, name: str) -> None:
        raise _unsupported()

    def check_restored(self, database: str) -> None:
        raise _unsupported()

    def close(self) -> None:
        """The connections are the server's."""

    def end_engine(self) -> None:
        """No process on this machine has the portal open."""

    def _checks(self) -> QueryChecks:
        """New for each query: another server may have changed the tables."""
        inspector = ServerInspector(self._owner(self._limits["max_execution_time"], {}), self.database)
        return QueryChecks(inspector, self._server.functions())

    def _owner(self, timeout_s: float, settings: Mapping[str, int]) -> OwnerConnection:
        return OwnerConnection(
            self._server, self.database, settings, timeout_s=timeout_s, check_continue=self._check_continue
        )

    @contextmanager
    def _translate_errors(self, field: str | None, *, once: bool = False) -> Iterator[None]:
        """`field` is the argument a caller's query came in; None for statements of our own."""
        from clickhouse_connect.driver.exceptions import Error

        try:
            yield
        except Overdue as exc:
            raise timed_out(field) from exc
        except RecursionError as exc:  # in the syntax tree
            raise failed(failures.describe(QueryTooLarge(_TOO_DEEP)), field) from exc
        except (QueryRefused, QueryTooLarge, Unfit) as exc:
            raise failed(failures.describe(exc), field) from exc
        except Error as exc:
            if exc.code is None:
                raise _unreachable(once=once) from exc
            raise self._failure({**failures.describe(exc), "code": exc.code}, field) from exc

    def _failure(self, answer: dict[str, Any], field: str | None) -> Exception:
        answer["message"] = answer["message"].replace(f"{self.database}.", "")
        match answer["code"]:
            case code if code == _UNKNOWN_DATABASE:
                return deleted()
            case code if code == _QUOTA_EXCEEDED:
                return Unavailable(
                    "Your queries of the last minute took as long as those of one user may. Try again in a minute.",
                    retry_after=QUOTA_S,
                )
            case code if code == _TOO_MANY_QUERIES:
                return busy()
            case code if code in _DENIED:
                return Unavailable(
                    "The ClickHouse server of --portals-url denies this program a right. Its log says which; "
                    "docs/portals.md lists what it needs."
                )
        return failed(answer, field)


def _unreachable(*, once: bool) -> Unavailable:
    message = "The ClickHouse server of --portals-url does not answer. Try again."
    return (EngineInterrupted if once else Unavailable)(message, retry_after=RETRY_AFTER_S)


def _unsupported() -> Unavailable:
    return Unavailable(
        "Portals on a ClickHouse server cannot be written to a file of the format db yet. Export their tables as json, "
        "csv or parquet."
    )
