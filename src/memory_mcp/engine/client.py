"""A server's line to the engine of one portal: started if nobody has, found again if it died."""

import json
import logging
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import memory_mcp
from memory_mcp.engine import archive, frames
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.files.data_directory import make_private_folder
from memory_mcp.files.turns import is_free

START = 30.0  # seconds an engine has to start on a busy machine
AGAIN = 3.0  # after which another one is started: the first may have died
PAUSE = 0.02
MOST_TRIES = 5
MOST_WIRES = 4  # of one server to one engine: so many can be answered side by side
MOST_EXPORTS = 2  # of them: exports may take long, and leave the others to everybody else
LOOK = 0.1  # seconds between two looks whether the caller is still there
LEAVING = 120.0  # seconds an engine has to finish what it is at and leave: an old one waits until nobody asks
IDLE = 60.0  # seconds after the last request that an engine stays
PACKAGES = Path(memory_mcp.__file__).parents[1]

log = logging.getLogger(__name__)

# Codes of ClickHouse that say that something is too much.
_TOO_LONG, _TOO_MUCH_MEMORY = {159, 160}, 241
_TOO_MANY = {158, 307, 396}
_TOO_MUCH = {
    **dict.fromkeys(_TOO_LONG, "this took too long. Narrow the query, or aggregate less at once."),
    _TOO_MUCH_MEMORY: "this needs too much memory. Narrow the query with WHERE or LIMIT.",
    **dict.fromkeys(_TOO_MANY, "this reads or gives too much. Narrow the query with WHERE or LIMIT."),
}
_DISK_FULL = 243


class EngineError(Exception):
    """The engine would not do it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class LimitReached(Invalid):
    """A statement of ours came to a limit of the engine. `is_time` is whether that was the limit of time."""

    def __init__(self, message: str, *, is_time: bool) -> None:
        super().__init__(message, word="too_large")
        self.is_time = is_time


def check_wanted(cancelled: threading.Event | None) -> None:
    """Raises Unavailable for a caller who has left. Nobody reads it; whatever was begun is undone on its way out."""
    if cancelled is not None and cancelled.is_set():
        raise Unavailable("The call was cancelled, and nothing was changed.")


def is_installed() -> bool:
    return find_spec("chdb") is not None


class Interrupted(Unavailable):
    """The engine died with a statement in its hands: only the tables can tell whether it was carried out."""


class EngineLine:
    """A few connections, each opened when the others are busy.

    Whatever is sent may be sent twice: it must not matter.
    """

    def __init__(self, folder: Path, limits: dict[str, int]) -> None:
        self._folder = folder
        self._limits = limits
        self._socket = socket_path(folder)
        self._places = threading.BoundedSemaphore(MOST_WIRES)
        self._exports = threading.BoundedSemaphore(MOST_EXPORTS)
        self._free: list[socket.socket] = []  # wires nobody uses just now; the last one is taken first
        self._cancelled: threading.Event | None = None
        self._settings: Callable[[], dict[str, int]] = dict  # of the engine, for each statement of ours
        self._check: Callable[[], None] = lambda: None

    def until(self, cancelled: threading.Event | None) -> "EngineLine":
        """This line for a caller who may leave: the engine then stops, and Unavailable is raised. For what changes
        nothing, or can be undone on the line itself."""
        line = copy(self)
        line._cancelled = cancelled
        return line

    def within(self, settings: Callable[[], dict[str, int]], check: Callable[[], None]) -> "EngineLine":
        """This line for statements of ours on foreign data, each run with these settings of the engine. The engine
        stops when `check`, which is called again and again meanwhile, raises. Raises LimitReached."""
        line = copy(self)
        line._settings, line._check = settings, check
        return line

    def query(
        self, sql: str, parameters: dict[str, Any], lent: dict[str, str] | None = None, field: str = "sql"
    ) -> dict[str, Any]:
        """A query of a caller, through the wall. `lent` are other portals' databases, by what it calls them; `field` is
        the argument that is to blame."""
        asked = {"op": "query", "sql": sql, "parameters": parameters, "lent": lent or {}}
        answer: dict[str, Any] = json.loads(self._ask(asked, field=field))
        return answer

    def run(self, sql: str, parameters: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
        """A statement of our own."""
        return self._ask({"op": "run", "sql": sql, "parameters": parameters or {}}, data)

    def run_once(self, sql: str, data: bytes = b"") -> None:
        """A statement that must not be sent again unseen. Raises Interrupted if the engine dies meanwhile."""
        self._ask({"op": "run", "sql": sql, "parameters": {}}, data, once=True)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        lines = self.run(f"{sql} FORMAT JSONEachRow", parameters).splitlines()
        return [json.loads(line) for line in lines]

    def run_afresh(self, sql: str, made: str | None = None) -> bytes:
        """A statement of our own, on a connection of its own. `made` is what it makes in staging."""
        return self._ask({"op": "run afresh", "sql": sql, "made": made})

    def export(self, sql: str, path: Path, format_: str, most: int, field: str = "query") -> int:
        """Write what a caller's query gives, at most so many bytes, to a file, through the wall. How many rows."""
        limits = {"max_memory_usage": self._limits["max_memory_usage"], "max_result_bytes": most}
        asked = {"op": "export", "sql": sql, "path": str(path), "format": format_, "limits": limits}
        with self._taking(self._exports):
            return int(self._ask(asked, field=field))

    def check_archive(self, name: str) -> None:
        """Raises archive.Damaged unless a staged portal file makes plain tables only."""
        self._ask({"op": "check archive", "name": name})

    def check_restored(self, database: str) -> None:
        """Raises archive.Damaged unless what was restored from a portal file are plain tables only."""
        self._ask({"op": "check restored", "database": database})

    def close(self) -> None:
        self._drop_free()

    def dismiss(self, wait: float = LEAVING) -> None:
        """Have the engine leave, if one has the portal open. Raises Unavailable if it does not in `wait` seconds."""
        self.close()
        deadline, asked = time.monotonic() + wait, False
        while is_running(self._folder):
            if time.monotonic() > deadline:
                raise Unavailable("The engine of a portal is still busy. Try again in a minute.")
            if not asked:
                with suppress(OSError):  # it is just starting or leaving
                    self._send_away()
                    asked = True
            time.sleep(PAUSE)

    def _send_away(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.connect(str(self._noted_socket() or self._socket))
            frames.send(wire, {"limits": self._limits})
            frames.receive(wire)
            frames.send(wire, {"op": "leave"})
            frames.receive(wire)

    def _ask(self, header: dict[str, Any], data: bytes = b"", field: str | None = None, *, once: bool = False) -> bytes:
        settings = self._settings()
        stops = self._cancelled is not None or bool(settings)
        with self._taking(self._places):
            answer, payload = self._answer({**header, "stops": stops, "settings": settings}, data, once=once)
        if not answer["ok"]:
            raise _error(answer, field)
        return payload

    @contextmanager
    def _taking(self, places: threading.BoundedSemaphore) -> Iterator[None]:
        while not places.acquire(timeout=LOOK):
            check_wanted(self._cancelled)
            self._check()
        try:
            yield
        finally:
            places.release()

    def _answer(self, header: dict[str, Any], data: bytes, *, once: bool = False) -> tuple[dict[str, Any], bytes]:
        for _ in range(MOST_TRIES):
            with ExitStack() as closing:
                try:
                    wire = closing.enter_context(self._taken() or self._connect())
                    frames.send(wire, header, data)
                    self._wait_for(wire)
                    answer = frames.receive(wire)
                except OSError as exc:  # it died, or has just left
                    self._drop_free()
                    if once:
                        raise Interrupted("The engine of this portal went away. Try again.") from exc
                else:
                    closing.pop_all()
                    self._free.append(wire)
                    return answer
        raise Unavailable("The engine of this portal does not stay up. Look at the log; nothing was changed.")

    def _wait_for(self, wire: socket.socket) -> None:
        waiting = select.poll()
        waiting.register(wire, select.POLLIN)
        while not waiting.poll(LOOK * 1000):
            check_wanted(self._cancelled)
            self._check()

    def _taken(self) -> socket.socket | None:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _drop_free(self) -> None:
        while wire := self._taken():
            wire.close()

    def _connect(self) -> socket.socket:
        deadline, started = time.monotonic() + START, 0.0
        _make_ours(self._socket.parent)
        while True:
            wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                wire.connect(str(self._noted_socket() or self._socket))
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
                return wire

    def _noted_socket(self) -> Path | None:
        """Where the engine says that it listens, if nobody else could: its server may have another XDG_RUNTIME_DIR."""
        try:
            path = Path(os.fsdecode((self._folder / frames.LOCK).read_bytes()))
            return path if path.is_absolute() and _is_ours(path.parent) else None
        except (OSError, ValueError):
            return None

    def _start(self) -> None:
        if not is_installed():
            raise Unavailable(
                "Portals need chDB, which is not installed: pip install 'memory-mcp[portals]'. It has no wheel for "
                "Windows and musl; everything else works without it."
            )
        make_private_folder(self._folder)
        idle = os.environ.get("MEMORY_MCP_ENGINE_IDLE", str(IDLE))
        command = [sys.executable, "-m", "memory_mcp.engine.broker", str(self._folder), str(self._socket), idle]
        with open(self._folder / "engine.log", "ab", opener=_open_private) as said:
            # From the package's own folder: Python may import from where it starts, and what it may import the engine
            # may read.
            engine = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                cwd=PACKAGES,
                umask=0o077,
            )
        threading.Thread(target=self._see_off, args=(engine,), name="engine", daemon=True).start()

    def _see_off(self, engine: subprocess.Popen[bytes]) -> None:
        """Wait for it, so that no zombie stays, and tell if it did not leave by itself: a library that faults says
        nothing in engine.log."""
        if status := engine.wait():
            why = signal.strsignal(-status) if status < 0 else f"status {status}"
            log.warning("The engine of the portal in %s ended: %s.", self._folder, why)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def is_running(folder: Path) -> bool:
    """Whether an engine has this portal open."""
    lock = folder / frames.LOCK
    return lock.exists() and not is_free(lock)


def socket_path(folder: Path) -> Path:
    """Short, whatever the folder: addresses of sockets have at most 104 characters."""
    name = sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and len(runtime) < 50 else Path(tempfile.gettempdir())
    return base / f"memory-mcp-{os.getuid()}" / f"{name}.sock"


def _make_ours(folder: Path) -> None:
    """Raises Unavailable if somebody else has made it, who could then pose as an engine."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(folder):
        raise Unavailable("The folder for sockets of engines is not this user's alone. Set XDG_RUNTIME_DIR.")


def _is_ours(folder: Path) -> bool:
    found = folder.lstat()
    return found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077


def _error(answer: dict[str, Any], field: str | None) -> Exception:
    """`field` is the argument a caller's query came in; None for statements of our own."""
    kind, said = answer["kind"], answer["message"]
    if kind == "damaged":
        return archive.Damaged(said)
    if kind == "refused":
        return Invalid(f"{field}: {said}", word="read_only_query", field=field)
    if kind == "too much":
        return Invalid(f"{field}: {said}", word="too_large", field=field)
    if kind == "unfit" and field == "query":
        return Invalid("query: an export takes no parameters. Write the values into the query.", field="query")
    if kind == "unfit" and field is not None:
        return Invalid(f"parameters: {said}", field="parameters")
    code = answer["code"]
    if code == _DISK_FULL:
        return Unavailable("The disk that this portal lies on is full. Make room, and try again.")
    if field is None:
        if code in {*_TOO_LONG, _TOO_MUCH_MEMORY, *_TOO_MANY}:
            return LimitReached(
                "This is too much for the engine at once. Give it less at a time.", is_time=code in _TOO_LONG
            )
    elif words := _TOO_MUCH.get(code):
        return Invalid(f"{field}: {words}", word="too_large", field=field)
    return EngineError(said, code)
