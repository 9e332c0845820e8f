"""A server's connections to the engine of one portal. If no engine runs, or it has ended, a new one is started."""

import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any

from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.chdb import archive, frames, peer
from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from memory_mcp.engines.chdb.process import (
    RETRY_AFTER_S,
    EngineProcess,
    EngineRules,
    is_installed,
    is_running,
    wait_until_ended,
)
from memory_mcp.errors import AppError, Invalid, LimitExceeded, NotFound, Unavailable

__all__ = [
    "EngineConnections",
    "EngineError",
    "EngineInterrupted",
    "EngineRules",
    "MemoryBudget",
    "is_installed",
    "is_running",
    "wait_until_ended",
]

POLL_INTERVAL_S = 0.02
MAX_ATTEMPTS = 5
# Requests of one server that one engine answers side by side; each kind leaves the others free.
MAX_EXPORTS = 2
MAX_STATEMENTS = 4
MAX_EXPORT_WAIT_S = 600.0  # for one of those to end
MAX_STATEMENT_S = 3600  # for a statement of the server: the largest import takes far less
MAX_COUNT_S = 60  # to count the rows of an export
KILL_GRACE_S = 5.0  # after an engine should have ended a request itself
PROBE_INTERVAL_S = 10.0  # between two checks that a busy engine still responds
STALL_TIMEOUT_S = 30.0  # without a byte while a message is under way
CANCEL_CHECK_INTERVAL_S = 0.1  # between two checks that the caller has not left
LEAVE_TIMEOUT_S = 120.0  # for an engine to finish its requests and end

log = logging.getLogger(__name__)

# Error codes of ClickHouse for exceeded limits.
_TOO_LONG, _TOO_MUCH_MEMORY = {159, 160}, 241
_TOO_MANY = {158, 307, 396}
_TOO_MUCH = {
    _TOO_MUCH_MEMORY: "this needs too much memory. Narrow the query with WHERE or LIMIT.",
    **dict.fromkeys(_TOO_MANY, "this reads or gives too much. Narrow the query with WHERE or LIMIT."),
}
_DISK_FULL = 243
_STD_EXCEPTION = 1001  # of a C++ library, such as std::filesystem or Parquet
_FILESYSTEM_ERROR = "filesystem error"  # in messages of std::filesystem


class EngineError(Exception):
    """The engine refused a statement, or failed to run it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Overdue(Exception):
    """A request has exceeded its time limit. It is not sent again."""


class EngineInterrupted(Unavailable):
    """The engine ended during a statement: only the tables show whether it was carried out."""


class FreeConnections:
    """Connections that are not in use, each with the folder of its engine. After `close`, none is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[tuple[list[int] | None, socket.socket]] = []
        self._is_closed = False

    def add(self, folder: list[int] | None, wire: socket.socket) -> None:
        with self._lock:
            if not self._is_closed:
                self._free.append((folder, wire))
                return
        wire.close()

    def pop(self, folder: list[int] | None) -> socket.socket | None:
        """The last one that was added for the engine of this folder. Connections to engines of former folders at the
        same path are closed."""
        with self._lock:
            while self._free:
                connected_to, wire = self._free.pop()
                if connected_to == folder:
                    return wire
                wire.close()
        return None

    def clear(self) -> None:
        with self._lock:
            while self._free:
                self._free.pop()[1].close()

    def close(self) -> None:
        """A connection that is in use is closed when it is added."""
        with self._lock:
            self._is_closed = True
        self.clear()


class EngineConnections:
    """A server's connections to one engine, each opened when the others are busy.

    A request may be sent twice, so it must be idempotent. A request past its time limit is not sent again; an engine
    that does not end it is killed.
    """

    def __init__(
        self,
        folder: Path,
        limits: dict[str, int],
        rules: EngineRules | None = None,
        user_memory: MemoryBudget | None = None,
    ) -> None:
        """`user_memory` limits the queries, exports and imports of all engines that share it."""
        self._folder = folder
        self._limits = limits
        rules = rules or EngineRules()
        self._process = EngineProcess(folder, rules)
        self._rules = rules
        self._queries = threading.BoundedSemaphore(rules.max_queries)
        self._user_memory = user_memory
        self._exports = threading.BoundedSemaphore(MAX_EXPORTS)
        self._statements = threading.BoundedSemaphore(MAX_STATEMENTS)
        self._free = FreeConnections()
        self._cancelled: threading.Event | None = None
        self._settings: Callable[[], dict[str, int]] = dict  # of the engine, for each statement of ours
        self._check: Callable[[], None] = lambda: None

    def cancellable(self, cancelled: threading.Event | None) -> "EngineConnections":
        """The same connections for a caller that may cancel: the engine then stops, and Unavailable is raised. Only for
        statements that change nothing, or can be undone on these connections."""
        limited = copy(self)
        limited._cancelled = cancelled
        return limited

    def limited(self, settings: Callable[[], dict[str, int]], check: Callable[[], None]) -> "EngineConnections":
        """The same connections for statements of ours on foreign data, each run with these settings of the engine. It
        stops when `check`, which is called again and again meanwhile, raises. Raises LimitExceeded."""
        limited = copy(self)
        limited._settings, limited._check = settings, check
        return limited

    def query(
        self, sql: str, parameters: dict[str, Any], attached: dict[str, str] | None = None, field: str = "sql"
    ) -> dict[str, Any]:
        """A query of a caller, if the SQL policy allows it. `attached` are other portals' databases, by their names in
        it; `field` is the argument that errors name."""
        request = {"op": "query", "sql": sql, "parameters": parameters, frames.ATTACHED: attached or {}}
        wait_s = self._rules.max_query_wait_s
        with self._acquire(self._queries, wait_s), self._hold_memory(self._limits, wait_s):
            answer: dict[str, Any] = json.loads(self._request(request, self._limits["max_execution_time"], field=field))
        return answer

    def run(self, sql: str, parameters: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
        """A statement of our own."""
        return self._run_statement({"op": "run", "sql": sql, "parameters": parameters or {}}, data)

    def run_once(self, sql: str, data: bytes = b"", parameters: dict[str, Any] | None = None) -> None:
        """A statement that must not be sent twice. Raises EngineInterrupted if the engine ends meanwhile."""
        self._run_statement({"op": "run", "sql": sql, "parameters": parameters or {}}, data, once=True)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        lines = self.run(f"{sql} FORMAT JSONEachRow", parameters).splitlines()
        return [json.loads(line) for line in lines]

    def run_on_new_connection(self, sql: str) -> bytes:
        """A statement of our own, on a connection of its own."""
        return self._run_statement({"op": "run afresh", "sql": sql})

    def export(self, sql: str, path: Path, format_: str, max_bytes: int, field: str = "query") -> int:
        """Write the result of a caller's query, if the SQL policy allows it, to a file of at most so many bytes.
        Returns how many rows it has."""
        limits = {name: value for name, value in self._limits.items() if name in ("max_memory_usage", "max_threads")}
        limits |= {"max_result_bytes": max_bytes, "max_execution_time": self._rules.max_export_s}
        target = {"path": str(path), "format": format_, "bytes_per_s": self._rules.export_bytes_per_s}
        request = {"op": "export", "sql": sql, **target, "limits": limits}
        with self.export_slot(), self._hold_memory(limits, MAX_EXPORT_WAIT_S):
            return int(self._request(request, self._rules.max_export_s + MAX_COUNT_S, field=field))

    def export_slot(self) -> AbstractContextManager[None]:
        """One of the exports that run side by side."""
        return self._acquire(self._exports, MAX_EXPORT_WAIT_S)

    def back_up(self, sql: str, path: str, *, is_paced: bool) -> None:
        """Run a BACKUP to a file or folder in staging. Other statements go on beside it."""
        rate = self._rules.export_bytes_per_s if is_paced else None
        self._run_statement({"op": "back up", "sql": sql, "path": path, "bytes_per_s": rate})

    def check_archive(self, name: str) -> None:
        """Raises archive.DamagedArchive unless a staged portal file makes plain tables only."""
        self._run_statement({"op": "check archive", "name": name})

    def check_restored(self, database: str) -> None:
        """Raises archive.DamagedArchive unless a restored portal file has plain tables only."""
        self._run_statement({"op": "check restored", "database": database})

    def close(self) -> None:
        """Close each connection, those in use after their answers."""
        self._free.close()

    def end_engine(self, timeout_s: float = LEAVE_TIMEOUT_S) -> None:
        """End the engine, if one has the portal open. Raises Unavailable if it does not end within `timeout_s`."""
        self._free.clear()
        deadline, is_requested = time.monotonic() + timeout_s, False
        while is_running(self._folder):
            if time.monotonic() > deadline:
                raise Unavailable("The engine of a portal is still busy. Try again in a minute.")
            if not is_requested:
                with suppress(OSError):  # it is just starting or leaving
                    self._process.request({"op": "leave"})
                    is_requested = True
            time.sleep(POLL_INTERVAL_S)

    def _run_statement(self, header: dict[str, Any], data: bytes = b"", *, once: bool = False) -> bytes:
        """It counts as memory of its user if it is limited: others of ours need little."""
        with self._acquire(self._statements, MAX_STATEMENT_S), self._hold_memory(self._settings(), MAX_STATEMENT_S):
            return self._request(header, MAX_STATEMENT_S, data, once=once)

    def _request(
        self, header: dict[str, Any], timeout_s: int, data: bytes = b"", field: str | None = None, *, once: bool = False
    ) -> bytes:
        settings = self._settings()
        timeout_s = min(timeout_s, settings.get("max_execution_time", timeout_s))
        stops = self._cancelled is not None or bool(settings)
        request = {**header, "timeout_s": timeout_s, "stops": stops, "settings": settings}
        try:
            answer, payload = self._answer(request, timeout_s, data, once=once)
        except Overdue as exc:
            raise _timeout(field) from exc
        if not answer["ok"]:
            raise _error(answer, field)
        return payload

    @contextmanager
    def _acquire(self, slots: threading.BoundedSemaphore, max_wait_s: float) -> Iterator[None]:
        deadline = time.monotonic() + max_wait_s
        while not slots.acquire(timeout=CANCEL_CHECK_INTERVAL_S):
            self._check_continue()
            if time.monotonic() > deadline:
                raise _busy()
        try:
            yield
        finally:
            slots.release()

    @contextmanager
    def _hold_memory(self, limits: dict[str, int], max_wait_s: float) -> Iterator[None]:
        """Count what a statement with these limits may use as memory of its user."""
        size = limits.get("max_memory_usage", 0)
        with ExitStack() as held:
            if self._user_memory and size:
                holding = self._user_memory.hold(size, max_wait_s, CANCEL_CHECK_INTERVAL_S, self._check_continue)
                try:
                    held.enter_context(holding)
                except TimeoutError:
                    raise _busy() from None
            yield

    def _answer(
        self, header: dict[str, Any], timeout_s: int, data: bytes, *, once: bool = False
    ) -> tuple[dict[str, Any], bytes]:
        """Raises Overdue for a request past its time limit."""
        for _ in range(MAX_ATTEMPTS):
            with ExitStack() as closing:
                identity = frames.folder_identity(self._folder)
                if identity is None and self._process.must_exist:
                    raise _deleted()
                wire = closing.enter_context(self._free.pop(identity) or self._connect())
                deadline = time.monotonic() + timeout_s
                try:
                    answer = self._exchange(wire, deadline + frames.GRACE_S + KILL_GRACE_S, header, data)
                except OSError as exc:  # it has ended
                    self._free.clear()
                    if once:
                        raise EngineInterrupted("The engine of this portal ended. Try again.") from exc
                    if time.monotonic() > deadline:
                        raise Overdue from exc
                else:
                    closing.pop_all()
                    self._free.add(identity, wire)
                    return answer
        raise Unavailable("The engine of this portal ends again and again. Look at the log; nothing was changed.")

    def _exchange(
        self, wire: socket.socket, deadline: float, header: dict[str, Any], data: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """Raises Overdue when there is no answer at `deadline`, and OSError when the engine ends or hangs: either way
        it is killed."""
        wire.settimeout(STALL_TIMEOUT_S)
        try:
            frames.send(wire, header, data)
            self._wait_for(wire, deadline)
            return frames.receive(wire)
        except (TimeoutError, Overdue):
            log.warning("The engine of the portal in %s does not answer in time. It is killed.", self._folder)
            peer.kill(wire)
            raise

    def _wait_for(self, wire: socket.socket, deadline: float) -> None:
        waiting = select.poll()
        waiting.register(wire, select.POLLIN)
        probed_at = time.monotonic()
        while not waiting.poll(CANCEL_CHECK_INTERVAL_S * 1000):
            self._check_continue()
            now = time.monotonic()
            if now > deadline:
                raise Overdue
            if now - probed_at > PROBE_INTERVAL_S:
                self._process.check_responds()
                probed_at = time.monotonic()

    def _connect(self) -> socket.socket:
        try:
            return self._process.connect({"limits": self._limits}, self._check_continue)
        except FileNotFoundError:
            raise _deleted() from None

    def _check_continue(self) -> None:
        check_not_cancelled(self._cancelled)
        self._check()


def _busy() -> Unavailable:
    return Unavailable(
        "Too many of your queries, imports and exports, or calls of this portal, are under way. Try again when some "
        "have ended.",
        retry_after=RETRY_AFTER_S,
    )


def _deleted() -> NotFound:
    return NotFound("This portal was deleted.", hint="portal_write creates a new one.", field="portalUri")


def _timeout(field: str | None) -> AppError:
    """`field` is the argument a caller's query came in; None for statements of our own."""
    if field is None:
        return LimitExceeded("This took the engine too long. Give it less at a time.", limit="time")
    return Invalid(
        f"{field}: this took longer than a query may. Narrow it with WHERE, or aggregate less at once.",
        code="timeout",
        field=field,
    )


def _error(answer: dict[str, Any], field: str | None) -> Exception:
    """`field` is the argument a caller's query came in; None for statements of our own."""
    kind, message = answer["kind"], answer["message"]
    if kind == "timeout" or answer.get("code") in _TOO_LONG:
        return _timeout(field)
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
    if field is None:
        if code in {_TOO_MUCH_MEMORY, *_TOO_MANY}:
            return LimitExceeded("This is too much for the engine at once. Give it less at a time.", limit="size")
    elif words := _TOO_MUCH.get(code):
        return Invalid(f"{field}: {words}", code="too_large", field=field)
    return EngineError(message, code)
