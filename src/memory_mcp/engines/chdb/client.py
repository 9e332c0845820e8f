"""A server's connections to the engine of one portal. If no engine runs, or it has ended, a new one is started."""

import logging
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from memory_mcp.engines.chdb import frames, peer
from memory_mcp.engines.chdb.memory_budget import MemoryBudget
from memory_mcp.engines.chdb.process import EngineProcess, EngineRules, is_running
from memory_mcp.engines.portal_engine import (
    CANCEL_CHECK_INTERVAL_S,
    MAX_ATTEMPTS,
    MAX_BACKUP_S,
    MAX_COUNT_S,
    MAX_STATEMENT_S,
    EngineInterrupted,
    Overdue,
    PortalEngine,
    deleted,
    failed,
    timed_out,
)
from memory_mcp.errors import Unavailable

POLL_INTERVAL_S = 0.02
KILL_GRACE_S = 5.0  # after an engine should have ended a request itself
PROBE_INTERVAL_S = 10.0  # between two checks that a busy engine still responds
STALL_TIMEOUT_S = 30.0  # without a byte while a message is under way
LEAVE_TIMEOUT_S = 120.0  # for an engine to finish its requests and end

log = logging.getLogger(__name__)


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


class EngineConnections(PortalEngine):
    """A server's connections to one engine on this machine, each opened when the others are busy. An engine that does
    not end a request past its time limit is killed."""

    def __init__(
        self,
        folder: Path,
        limits: dict[str, int],
        rules: EngineRules | None = None,
        user_memory: MemoryBudget | None = None,
    ) -> None:
        super().__init__(limits, rules or EngineRules(), user_memory)
        self._folder = folder
        self._process = EngineProcess(folder, self._rules)
        self._free = FreeConnections()

    def _query(self, sql: str, parameters: dict[str, Any], attached: Mapping[str, str], field: str) -> bytes:
        request = {"op": "query", "sql": sql, "parameters": parameters, frames.ATTACHED: attached}
        return self._request(request, self._limits["max_execution_time"], field=field)

    def _run(self, sql: str, parameters: dict[str, Any], data: bytes, *, once: bool = False) -> bytes:
        return self._request({"op": "run", "sql": sql, "parameters": parameters}, MAX_STATEMENT_S, data, once=once)

    def _export(self, sql: str, path: Path, format_: str, limits: Mapping[str, int], field: str) -> int:
        target = {"path": str(path), "format": format_, "bytes_per_s": self._rules.export_bytes_per_s}
        request = {"op": "export", "sql": sql, **target, "limits": limits}
        return int(self._request(request, self._rules.max_export_s + MAX_COUNT_S, field=field))

    def run_on_new_connection(self, sql: str) -> None:
        self._run_statement({"op": "run afresh", "sql": sql})

    def back_up(self, sql: str, path: str, *, is_paced: bool, about: Mapping[str, Any] | None = None) -> None:
        rate = self._rules.export_bytes_per_s if is_paced else None
        request = {"op": "back up", "sql": sql, "path": path, "bytes_per_s": rate, "about": about}
        self._run_statement(request, MAX_BACKUP_S)

    def check_archive(self, name: str) -> None:
        self._run_statement({"op": "check archive", "name": name})

    def check_restored(self, database: str) -> None:
        self._run_statement({"op": "check restored", "database": database})

    def close(self) -> None:
        """Close each connection, those in use after their answers."""
        self._free.close()

    def end_engine(self, timeout_s: float = LEAVE_TIMEOUT_S) -> None:
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

    def _run_statement(self, header: dict[str, Any], timeout_s: int = MAX_STATEMENT_S) -> None:
        with self._statement_slot():
            self._request(header, timeout_s)

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
            raise timed_out(field) from exc
        if not answer["ok"]:
            raise failed(answer, field)
        return payload

    def _answer(
        self, header: dict[str, Any], timeout_s: int, data: bytes, *, once: bool = False
    ) -> tuple[dict[str, Any], bytes]:
        """Raises Overdue for a request past its time limit."""
        for _ in range(MAX_ATTEMPTS):
            with ExitStack() as closing:
                identity = frames.folder_identity(self._folder)
                if identity is None and self._process.must_exist:
                    raise deleted()
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
            raise deleted() from None
