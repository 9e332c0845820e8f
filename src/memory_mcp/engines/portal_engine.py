"""The engine of a portal, as families use it: chDB in a process on this machine, or a ClickHouse server.

Both share how many requests run side by side, how a caller cancels one, what counts as memory of a user, and how
errors are reported.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from memory_mcp.engines.chdb.process import RETRY_AFTER_S, EngineRules
from memory_mcp.engines.chdb.sql_policy import DATABASE
from memory_mcp.errors import AppError, Invalid, LimitExceeded, NotFound, Unavailable

MAX_ATTEMPTS = 5  # to have a statement carried out, if engines end meanwhile
# Requests of one server that one engine answers side by side; each kind leaves the others free.
MAX_EXPORTS = 2
MAX_STATEMENTS = 4
MAX_EXPORT_WAIT_S = 600.0  # for one of those to end
MAX_STATEMENT_S = 3600  # for a statement of the server: the largest import takes far less
MAX_BACKUP_S = 2 * MAX_STATEMENT_S  # to write a portal file and seal it
MAX_COUNT_S = 60  # to count the rows of an export
CANCEL_CHECK_INTERVAL_S = 0.1  # between two checks that the caller has not left

# Error codes of ClickHouse for exceeded limits.
_TOO_LONG, _TOO_MUCH_MEMORY = {159, 160}, 241
_TOO_MANY = {158, 307, 396}
_DISK_FULL = 243
_STD_EXCEPTION = 1001  # of a C++ library, such as std::filesystem or Parquet
_FILESYSTEM_ERROR = "filesystem error"  # in messages of std::filesystem


class EngineError(Exception):
    """The engine refused a statement, or failed to run it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class ResultTooLarge(Invalid):
    """The result of a caller's query is larger than it may be."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message, code="too_large", field=field)


class EngineInterrupted(Unavailable):
    """The engine ended during a statement: only the tables show whether it was carried out."""


class Overdue(Exception):
    """A request has exceeded its time limit. It is not sent again."""


class PortalEngine(ABC):
    """The engine of one portal.

    A request may be sent twice, so it must be idempotent, unless it is run once. A request past its time limit is not
    sent again.
    """

    database = DATABASE
    """The name that its database has in statements."""
    marks_rows: ClassVar[bool] = True
    """Whether rows get a number that says which write they are from."""

    def __init__(self, limits: Mapping[str, int], rules: EngineRules, user_memory: MemoryBudget | None) -> None:
        """`user_memory` limits the queries, exports and imports of all engines that share it."""
        self._limits = limits
        self._rules = rules
        self._user_memory = user_memory
        self._queries = threading.BoundedSemaphore(rules.max_queries)
        self._exports = threading.BoundedSemaphore(MAX_EXPORTS)
        self._statements = threading.BoundedSemaphore(MAX_STATEMENTS)
        self._cancelled: threading.Event | None = None
        self._settings: Callable[[], dict[str, int]] = dict  # of the engine, for each statement of ours
        self._check: Callable[[], None] = lambda: None

    def cancellable(self, cancelled: threading.Event | None) -> Self:
        """The same engine for a caller that may cancel: it then stops, and Unavailable is raised. Only for statements
        that change nothing, or can be undone on this engine."""
        limited = copy(self)
        limited._cancelled = cancelled
        return limited

    def limited(self, settings: Callable[[], dict[str, int]], check: Callable[[], None]) -> Self:
        """The same engine for statements of ours on foreign data, each run with these settings of the engine. It
        stops when `check`, which is called again and again meanwhile, raises. Raises LimitExceeded."""
        limited = copy(self)
        limited._settings, limited._check = settings, check
        return limited

    def query(
        self, sql: str, parameters: dict[str, Any], attached: Mapping[str, str] | None = None, field: str = "sql"
    ) -> dict[str, Any]:
        """A query of a caller, if the SQL policy allows it. `attached` are other portals' databases, by their names in
        it; `field` is the argument that errors name."""
        wait_s = self._rules.max_query_wait_s
        with self._acquire(self._queries, wait_s), self._hold_memory(self._limits, wait_s):
            answer: dict[str, Any] = json.loads(self._query(sql, parameters, attached or {}, field))
        return answer

    def run(self, sql: str, parameters: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
        """A statement of our own."""
        with self._statement_slot():
            return self._run(sql, parameters or {}, data)

    def run_once(self, sql: str, data: bytes = b"", parameters: dict[str, Any] | None = None) -> None:
        """A statement that must not be sent twice. Raises EngineInterrupted if the engine ends meanwhile."""
        with self._statement_slot():
            self._run(sql, parameters or {}, data, once=True)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        lines = self.run(f"{sql} FORMAT JSONEachRow", parameters).splitlines()
        return [json.loads(line) for line in lines]

    def export(self, sql: str, path: Path, format_: str, max_bytes: int, field: str = "query") -> int:
        """Write the result of a caller's query, if the SQL policy allows it, to a file of at most so many bytes.
        Returns how many rows it has."""
        limits = {name: value for name, value in self._limits.items() if name in ("max_memory_usage", "max_threads")}
        limits |= {"max_result_bytes": max_bytes, "max_execution_time": self._rules.max_export_s}
        with self.export_slot(), self._hold_memory(limits, MAX_EXPORT_WAIT_S):
            return self._export(sql, path, format_, limits, field)

    def export_slot(self) -> AbstractContextManager[None]:
        """One of the exports that run side by side."""
        return self._acquire(self._exports, MAX_EXPORT_WAIT_S)

    @abstractmethod
    def run_on_new_connection(self, sql: str) -> None:
        """A statement of our own, on a connection of its own."""

    @abstractmethod
    def back_up(self, sql: str, path: str, *, is_paced: bool, about: Mapping[str, Any] | None = None) -> None:
        """Run a BACKUP to a file or folder in staging. Other statements go on beside it. `about` is what a file says of
        itself: it is sealed with that (`archive.seal`)."""

    @abstractmethod
    def check_archive(self, name: str) -> None:
        """Raises archive.DamagedArchive unless a staged portal file makes plain tables only."""

    @abstractmethod
    def check_restored(self, database: str) -> None:
        """Raises archive.DamagedArchive unless a restored portal file has plain tables only."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def end_engine(self) -> None:
        """End the process that has the portal open, if there is one. Raises Unavailable if it does not end."""

    @abstractmethod
    def _query(self, sql: str, parameters: dict[str, Any], attached: Mapping[str, str], field: str) -> bytes: ...

    @abstractmethod
    def _run(self, sql: str, parameters: dict[str, Any], data: bytes, *, once: bool = False) -> bytes: ...

    @abstractmethod
    def _export(self, sql: str, path: Path, format_: str, limits: Mapping[str, int], field: str) -> int: ...

    @contextmanager
    def _statement_slot(self) -> Iterator[None]:
        """A statement of ours counts as memory of its user if it is limited: others need little."""
        with self._acquire(self._statements, MAX_STATEMENT_S), self._hold_memory(self._settings(), MAX_STATEMENT_S):
            yield

    @contextmanager
    def _acquire(self, slots: threading.BoundedSemaphore, max_wait_s: float) -> Iterator[None]:
        deadline = time.monotonic() + max_wait_s
        while not slots.acquire(timeout=CANCEL_CHECK_INTERVAL_S):
            self._check_continue()
            if time.monotonic() > deadline:
                raise busy()
        try:
            yield
        finally:
            slots.release()

    @contextmanager
    def _hold_memory(self, limits: Mapping[str, int], max_wait_s: float) -> Iterator[None]:
        """Count what a statement with these limits may use as memory of its user."""
        size = limits.get("max_memory_usage", 0)
        with ExitStack() as held:
            if self._user_memory and size:
                holding = self._user_memory.hold(size, max_wait_s, CANCEL_CHECK_INTERVAL_S, self._check_continue)
                try:
                    held.enter_context(holding)
                except TimeoutError:
                    raise busy() from None
            yield

    def _check_continue(self) -> None:
        check_not_cancelled(self._cancelled)
        self._check()


def busy() -> Unavailable:
    return Unavailable(
        "Too many of your queries, imports and exports, or calls of this portal, are under way. Try again when some "
        "have ended.",
        retry_after=RETRY_AFTER_S,
    )


def deleted() -> NotFound:
    return NotFound("This portal was deleted.", hint="portal_write creates a new one.", field="portalUri")


def timed_out(field: str | None) -> AppError:
    """`field` is the argument a caller's query came in; None for statements of our own."""
    if field is None:
        return LimitExceeded("This took the engine too long. Give it less at a time.", limit="time")
    return Invalid(
        f"{field}: this took longer than a query may. Narrow it with WHERE, or aggregate less at once.",
        code="timeout",
        field=field,
    )


def failed(answer: dict[str, Any], field: str | None) -> Exception:
    """`field` is the argument a caller's query came in; None for statements of our own."""
    kind, message = answer["kind"], answer["message"]
    if kind == "timeout" or answer.get("code") in _TOO_LONG:
        return timed_out(field)
    if kind == "damaged":
        return archive.DamagedArchive(message)
    if kind == "refused":
        nearest: dict[str, Any] = {"nearest": [answer["nearest"]]} if answer.get("nearest") else {}
        return Invalid(f"{field}: {message}", code=answer.get("error", "read_only_query"), field=field, **nearest)
    if kind == "too much":
        return Invalid(f"{field}: {message}", code="too_large", field=field)
    if kind == "unfit" and field == "query":
        return Invalid("query: an export takes no parameters. Write the values into the query.", field="query")
    if kind == "unfit" and field is not None:
        return Invalid(f"parameters: {message}", field="parameters")
    code = answer["code"]
    if code == _DISK_FULL:
        return Unavailable("The disk that this portal lies on is full. Free some space, and try again.")
    if code == _STD_EXCEPTION and _FILESYSTEM_ERROR in message:
        return Unavailable(
            "The engine cannot use the files of this portal: they were moved or deleted. Try again.",
            retry_after=RETRY_AFTER_S,
        )
    if field is None and code in {_TOO_MUCH_MEMORY, *_TOO_MANY}:
        return LimitExceeded("This is too much for the engine at once. Give it less at a time.", limit="size")
    if field is not None and code == _TOO_MUCH_MEMORY:
        message = f"{field}: this needs too much memory. Narrow the query with WHERE or LIMIT."
        return Invalid(message, code="too_large", field=field)
    if field is not None and code in _TOO_MANY:
        return ResultTooLarge(f"{field}: this reads or gives too much. Narrow the query with WHERE or LIMIT.", field)
    return EngineError(message, code)
