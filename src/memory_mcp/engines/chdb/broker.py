"""The process that has one portal's engine open, for all servers on the machine. It is started as
`python -m memory_mcp.engines.chdb.broker`.

chDB lets one process open a folder, and one folder a process. So the first server that needs a portal starts this; the
others find its socket. It enters its sandbox before the engine starts, and ends when it has had no request for a while:
servers that are still connected find the next one.
"""

import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from memory_mcp.engines.chdb import failures, frames, sandbox
from memory_mcp.engines.chdb.connections import CHDB_ERRORS, Reader
from memory_mcp.engines.chdb.deadlines import POLL_INTERVAL_S, EngineClient, OpenRequests
from memory_mcp.engines.chdb.engine import HERE, Engine
from memory_mcp.engines.chdb.portal_socket import LEAVE_GRACE_S, PortalFolderHandle, acquire_lock, bind, unlink
from memory_mcp.engines.chdb.priority import Priority
from memory_mcp.engines.chdb.process import ENDED_ITSELF, HELLO_TIMEOUT_S
from memory_mcp.system import unix_sockets

EngineAnswer = tuple[dict[str, Any], bytes]


class Broker:
    def __init__(
        self, engine: Engine, folder: PortalFolderHandle, listening: socket.socket, lock: int, idle_s: float
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._listening = listening
        self._lock = lock
        self._idle_s = idle_s
        self._is_dismissed = False
        self.requests = OpenRequests()

    def serve(self) -> None:
        for watch in (self._leave_when_idle, self._stop_abandoned, self._end_when_stuck):
            threading.Thread(target=watch, daemon=True).start()
        self._listening.listen(64)
        while True:
            wire, _ = self._listening.accept()
            threading.Thread(target=self._serve_one, args=(wire,), daemon=True).start()

    def _serve_one(self, wire: socket.socket) -> None:
        with suppress(OSError), wire:  # the server has left
            if not unix_sockets.identify(wire).is_trusted():
                return
            hello, _ = frames.receive(wire)
            if hello["folder"] != self._folder.identity:  # the client wants another folder, which has this path now
                return
            if "op" in hello:
                frames.send(wire, self._control(hello["op"]))
            else:
                self._serve_requests(EngineClient(wire, uuid4().hex), hello["limits"])

    def _control(self, op: str) -> dict[str, Any]:
        """Answer a request that does not need chDB, which may be stuck."""
        if op == "leave":
            self._is_dismissed = True
        elif op == "leave if idle":
            with self.requests.none_open() as is_idle:
                self._is_dismissed = self._is_dismissed or is_idle
            return {"ok": is_idle}
        return {"ok": True, "pid": os.getpid()}

    def _serve_requests(self, client: EngineClient, limits: dict[str, int]) -> None:
        reader: Reader | None = None
        try:
            with self.requests.track(client, HELLO_TIMEOUT_S, stops=True) as tracked:
                reader = self._engine.reader(limits, client.tag)
                tracked.answer({"ok": True, "pid": os.getpid()})
            while True:
                request, data = frames.receive(client.wire)
                stops = request["op"] in ("query", "export") or (request["stops"] and not data)
                with self.requests.track(client, request["timeout_s"], stops=stops) as tracked:
                    tracked.answer(*self._answer(client, reader, request, data))
        finally:
            if reader:
                reader.close()

    def _stop_abandoned(self) -> None:
        """Repeatedly: a statement that has only just begun cannot be stopped yet."""
        while True:
            time.sleep(POLL_INTERVAL_S)
            for request in self.requests.abandoned():
                with suppress(*CHDB_ERRORS):  # the next attempt comes soon
                    self._engine.stop(request.client)

    def _end_when_stuck(self) -> None:
        """Does not use chDB, which may be stuck."""
        while True:
            time.sleep(POLL_INTERVAL_S)
            if stuck := self.requests.stuck():
                self.requests.end_overdue()
                self._engine.wait_for_writer({request.client for request in stuck})
                self.requests.end_overdue()
                sys.stderr.write("The engine ends: a request did not stop at its limit, or when its client left.\n")
                sys.stderr.flush()
                os._exit(ENDED_ITSELF)

    def _answer(self, client: EngineClient, reader: Reader, request: dict[str, Any], data: bytes) -> EngineAnswer:
        try:
            return {"ok": True}, self._run(client, reader, request, data)
        except Exception as exc:  # noqa: BLE001  # any failure is the answer to this request, and ends no other
            return failures.describe(exc), b""

    def _run(self, client: EngineClient, reader: Reader, request: dict[str, Any], data: bytes) -> bytes:
        engine, sql = self._engine, request.get("sql", "")
        match request["op"]:
            case "query":
                return reader.query(sql, request["parameters"], request[frames.ATTACHED])
            case "run" if request["stops"] and not data:
                return engine.run_for(client, sql, request["parameters"], request.get("settings", {}))
            case "run":
                return engine.run(sql, request["parameters"], data, client)
            case "run afresh":
                return engine.run_on_new_connection(client, sql, stops=request["stops"])
            case "back up":
                file = request["path"], request["bytes_per_s"], request["about"]
                return engine.back_up(client, sql, *file, stops=request["stops"])
            case "export":
                target = request["path"], request["format"]
                return engine.export(client, sql, *target, request["limits"], request["bytes_per_s"])
            case "check archive":
                return engine.check_archive(request["name"])
            case "check restored":
                return engine.check_restored(request["database"])
        raise ValueError("unknown operation")

    def _leave_when_idle(self) -> None:
        """Also leave when the folder was moved or deleted: chDB uses paths, and another folder may be there now."""
        noted_at = 0.0
        while True:
            time.sleep(POLL_INTERVAL_S)
            if not self._folder.is_in_place():
                self.requests.wait_for_none(LEAVE_GRACE_S)
                os._exit(0)
            if noted_at != self.requests.last_at:
                noted_at = self.requests.last_at
                used_at = time.time() - (time.monotonic() - noted_at)
                os.utime(self._lock, (used_at, used_at))  # for servers that look for the engine that is idle longest
            with self.requests.none_open() as is_idle:
                is_over = self._is_dismissed or time.monotonic() - self.requests.last_at > self._idle_s
                if is_idle and is_over:
                    unlink(self._listening)
                    self._engine.close()
                    os._exit(0)


def main() -> None:
    os.umask(0o077)
    orders = json.loads(sys.stdin.buffer.read())
    folder = Path(orders["folder"])
    handle = PortalFolderHandle(folder)
    if (lock := acquire_lock(folder)) is None or not handle.is_in_place():
        return
    os.pwrite(lock, json.dumps({"pid": os.getpid()}).encode(), 0)
    for name in ("tmp", "staging"):
        (folder / name).mkdir(exist_ok=True)
    priority = Priority(orders["server_niceness"], yields_when_busy=orders["yields_when_busy"])
    listening = bind(folder)
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "socket": listening.getsockname()}).encode(), 0)
    os.chdir(HERE)  # where config.xml looks for users.xml
    sys.setrecursionlimit(20_000)  # trees of queries are up to 1000 deep, and each level takes a few calls
    threading.stack_size(64 * 1024 * 1024)
    sandbox.enter(folder, readable=[HERE])
    engine = Engine(folder)
    broker = Broker(engine, handle, listening, lock, orders["idle_s"])
    adjust = partial(priority.adjust, orders["niceness"], broker.requests.request_processor_s)
    threading.Thread(target=adjust, daemon=True).start()
    broker.serve()


if __name__ == "__main__":
    main()
