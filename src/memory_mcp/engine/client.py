"""A server's line to the engine of one portal: started if nobody has, found again if it died."""

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import memory_mcp
from memory_mcp.engine import archive, frames
from memory_mcp.errors import Invalid, Unavailable

START = 30.0  # seconds an engine has to start on a busy machine
AGAIN = 3.0  # after which another one is started: the first may have died
PAUSE = 0.02
MOST_TRIES = 5
IDLE = 60.0  # seconds after its last client that an engine stays
PACKAGES = Path(memory_mcp.__file__).parents[1]

# Codes of ClickHouse that say that a query is too much.
_TOO_LONG, _TOO_MUCH_MEMORY = {159, 160}, 241
_TOO_MANY = {158, 307, 396}


class EngineError(Exception):
    """The engine would not do it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def is_installed() -> bool:
    return find_spec("chdb") is not None


class EngineLine:
    """One connection at a time; threads take turns. Whatever is sent may be sent twice: it must not matter."""

    def __init__(self, folder: Path, limits: dict[str, int]) -> None:
        self._folder = folder
        self._limits = limits
        self._socket = socket_path(folder)
        self._turn = threading.Lock()
        self._wire: socket.socket | None = None

    def query(self, sql: str, parameters: dict[str, Any], lent: dict[str, str] | None = None) -> dict[str, Any]:
        """A query of a caller, through the wall. `lent` are other portals' databases, by what it calls them."""
        asked = {"op": "query", "sql": sql, "parameters": parameters, "lent": lent or {}}
        answer: dict[str, Any] = json.loads(self._ask(asked))
        return answer

    def run(self, sql: str, parameters: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
        """A statement of our own."""
        return self._ask({"op": "run", "sql": sql, "parameters": parameters or {}}, data)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        lines = self.run(f"{sql} FORMAT JSONEachRow", parameters).splitlines()
        return [json.loads(line) for line in lines]

    def run_afresh(self, sql: str) -> bytes:
        return self._ask({"op": "run afresh", "sql": sql})

    def export(self, sql: str, path: Path, format_: str) -> int:
        """Write what a caller's query gives to a file, through the wall. How many rows that was."""
        return int(self._ask({"op": "export", "sql": sql, "path": str(path), "format": format_}))

    def check_archive(self, name: str) -> None:
        """Raises archive.Damaged unless a staged portal file makes plain tables only."""
        self._ask({"op": "check archive", "name": name})

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _ask(self, header: dict[str, Any], data: bytes = b"") -> bytes:
        with self._turn:
            for _ in range(MOST_TRIES):
                try:
                    wire = self._wire or self._connect()
                    frames.send(wire, header, data)
                    answer, payload = frames.receive(wire)
                    break
                except OSError:  # it died, or has just left
                    self._drop()
            else:
                raise Unavailable("The engine of this portal does not stay up. Look at the log; nothing was changed.")
        if not answer["ok"]:
            raise _error(answer)
        return payload

    def _connect(self) -> socket.socket:
        deadline, started = time.monotonic() + START, 0.0
        while True:
            wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                wire.connect(str(self._socket))
                frames.send(wire, {"limits": self._limits})
                frames.receive(wire)
            except OSError:
                wire.close()
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "The engine of this portal does not start. Look at the log, or try again."
                    ) from None
                if time.monotonic() - started > AGAIN:
                    self._start()
                    started = time.monotonic()
                time.sleep(PAUSE)
            else:
                self._wire = wire
                return wire

    def _start(self) -> None:
        if not is_installed():
            raise Unavailable(
                "Portals need chDB, which is not installed: pip install 'memory-mcp[portals]'. It has no wheel for "
                "Windows and musl; everything else works without it."
            )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_ours(self._socket.parent)
        idle = os.environ.get("MEMORY_MCP_ENGINE_IDLE", str(IDLE))
        command = [sys.executable, "-m", "memory_mcp.engine.broker", str(self._folder), str(self._socket), idle]
        with (self._folder / "engine.log").open("ab") as log:
            # From the package's own folder: Python may import from where it starts, and what it may import the engine
            # may read.
            engine = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=PACKAGES
            )
        threading.Thread(target=engine.wait, name="engine", daemon=True).start()  # no zombie stays

    def _drop(self) -> None:
        if self._wire:
            self._wire.close()
            self._wire = None


def socket_path(folder: Path) -> Path:
    """Short, whatever the folder: addresses of sockets have at most 104 characters."""
    name = sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and len(runtime) < 50 else Path(tempfile.gettempdir())
    return base / f"memory-mcp-{os.getuid()}" / f"{name}.sock"


def _make_ours(folder: Path) -> None:
    """Raises Unavailable if somebody else has made it, who could then pose as an engine."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
        raise Unavailable("The folder for sockets of engines is not this user's alone. Set XDG_RUNTIME_DIR.")


def _error(answer: dict[str, Any]) -> Exception:
    if answer["kind"] == "damaged":
        return archive.Damaged(answer["message"])
    if answer["kind"] == "refused":
        return Invalid(answer["message"], word="read_only_query", field="sql")
    code = answer["code"]
    if code in _TOO_LONG:
        return Invalid("The query took too long. Narrow it, or aggregate less at once.", word="too_large", field="sql")
    if code == _TOO_MUCH_MEMORY:
        return Invalid("The query needs too much memory. Narrow it with WHERE or LIMIT.", word="too_large", field="sql")
    if code in _TOO_MANY:
        return Invalid(
            "The query reads or gives too much. Narrow it with WHERE or LIMIT.", word="too_large", field="sql"
        )
    return EngineError(answer["message"], code)
