"""The engine process of one portal, seen from a server: found, started, and killed when it hangs."""

import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal, cast

from memory_mcp.engines.chdb import frames, peer, sandbox
from memory_mcp.engines.chdb.priority import must_yield
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.glob import find
from memory_mcp.engines.files.lock import FileLock, is_free
from memory_mcp.engines.isolation.launch import exit_status, reap, start_module
from memory_mcp.errors import Unavailable
from memory_mcp.system import unix_sockets
from memory_mcp.system.operating_system import MAX_NICENESS

START_TIMEOUT_S = 30.0  # on a busy machine
HELLO_TIMEOUT_S = 15.0
POLL_INTERVAL_S = 0.02
MAX_FAILED_STARTS = 2  # in a row
RETRY_AFTER_S = 10
ENDED_ITSELF = 3  # exit status of an engine that ended because something in it did not stop
LEAVE_TIMEOUT_S = 5.0  # for an idle engine to end
# An engine gets no more of the server's environment than it needs to run: nothing in it is a secret, and no library is
# put before the engine's own (chDB does not survive another allocator in LD_PRELOAD).
_ENVIRONMENT = (
    *("PATH", "HOME", "XDG_RUNTIME_DIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE"),
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineRules:
    """The rules for the engines of a server: how many there may be, and how each is confined."""

    sandbox: Literal["auto", "required"] = "auto"
    max_engines: int = 8  # at once, started by all servers together, for the portals below `root`
    root: Path | None = None  # a user's portals; None where nothing counts them
    idle_s: float = 60.0  # from the last request to the end of an engine
    max_queries: int = 4  # of one portal, that a server runs at once
    max_query_wait_s: float = 60.0  # for one of those to end, and for memory
    max_export_s: int = 180
    export_bytes_per_s: int = 25_000_000  # that all exports of a portal write together
    yields_when_busy: bool = False  # whether a busy engine gets only processors that no other process wants


def is_installed() -> bool:
    return find_spec("chdb") is not None


def is_running(folder: Path) -> bool:
    """Whether an engine has this portal open."""
    lock = folder / frames.LOCK
    return lock.exists() and not is_free(lock)


def read_lock(folder: Path) -> dict[str, Any]:
    """What the engine of a portal has written to its lock file: `socket` and `pid`."""
    try:
        noted = json.loads((folder / frames.LOCK).read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


class RecentStarts:
    """Engines that this server has recently started. A start takes about a second of a processor. A user whose requests
    end engines again and again gets the next ones at a lower priority."""

    WINDOW_S = 60.0
    MAX_FREE_STARTS = 4  # in that time, without a lower priority
    NICENESS_STEP = 8  # for each further start

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: dict[Path, deque[float]] = {}

    def record(self, root: Path) -> int:
        """Count a start for the portals below a folder. Returns the niceness that the engine gets."""
        now = time.monotonic()
        with self._lock:
            self._at = {one: at for one, at in self._at.items() if at[-1] > now - self.WINDOW_S}
            starts = self._at.setdefault(root, deque(maxlen=MAX_NICENESS))
            recent = sum(at > now - self.WINDOW_S for at in starts)
            starts.append(now)
        return min(MAX_NICENESS, self.NICENESS_STEP * max(0, recent - self.MAX_FREE_STARTS + 1))


_STARTS = RecentStarts()


class EngineProcess:
    """The one engine process of a portal, whichever server has started it."""

    def __init__(self, folder: Path, rules: EngineRules) -> None:
        self._folder = folder
        self._rules = rules
        self._starting = threading.Lock()
        self._started: subprocess.Popen[bytes] | None = None  # the last engine that this server started

    @property
    def must_exist(self) -> bool:
        """Whether the folder must exist before its engine is started: another server may have deleted the portal from
        the data directory."""
        return self._rules.root is not None

    def connect(self, hello: dict[str, Any], check: Callable[[], None]) -> socket.socket:
        """A connection that the engine has answered `hello` on; the engine is started if it does not run.

        `check` is called while this waits, and may raise. Raises Unavailable.
        """
        with suppress(OSError):
            return self._greet(hello)[0]
        while not self._starting.acquire(timeout=POLL_INTERVAL_S):
            check()
        try:
            return self._start_and_greet(hello, check)
        finally:
            self._starting.release()

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """The engine's answer to a request that needs no chDB. Raises OSError if none runs, or it has just left;
        one that does not answer is killed."""
        wire, answer = self._greet(request)
        wire.close()
        return answer

    def check_responds(self) -> None:
        """Raises ConnectionError, and kills the engine, if it does not answer."""
        try:
            self.request({"op": "ping"})
        except OSError as exc:
            raise ConnectionError("the engine does not answer") from exc

    def _greet(self, hello: dict[str, Any]) -> tuple[socket.socket, dict[str, Any]]:
        """Raises OSError. An engine that takes the connection and does not answer is killed. The engine of another
        folder, which lay here before or has taken the place of this one, refuses."""
        path = read_lock(self._folder).get("socket")
        if not isinstance(path, str):
            raise ConnectionRefusedError("no engine has recorded its socket")
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            wire.settimeout(HELLO_TIMEOUT_S)
            wire.connect(path)
            _check_owner(wire)
            frames.send(wire, {**hello, "folder": frames.folder_identity(self._folder)})
            answer, _ = frames.receive(wire)
            wire.settimeout(None)
        except TimeoutError:
            log.warning("The engine of the portal in %s does not answer. This server kills it.", self._folder)
            peer.kill(wire)
            wire.close()
            raise
        except BaseException:
            wire.close()
            raise
        return wire, answer

    def _start_and_greet(self, hello: dict[str, Any], check: Callable[[], None]) -> socket.socket:
        deadline = time.monotonic() + START_TIMEOUT_S
        started: subprocess.Popen[bytes] | None = None
        failed = 0
        while True:
            with suppress(OSError):
                return self._greet(hello)[0]
            if time.monotonic() > deadline:
                self.kill_hung()
                raise Unavailable("The engine of this portal does not start. Look at the log, or try again.")
            if not self._is_starting():
                failed += bool(started and exit_status(started))
                if failed >= MAX_FAILED_STARTS:
                    raise Unavailable("The engine of this portal ends as soon as it starts. Look at the log.")
                started = self._started = self._start()
            check()
            time.sleep(POLL_INTERVAL_S)

    def _is_starting(self) -> bool:
        """Whether an engine is on its way, also for an earlier call whose client has left."""
        is_alive = self._started is not None and exit_status(self._started) is None
        return is_alive or is_running(self._folder)

    def kill_hung(self) -> None:
        """Kill an engine that holds the portal's lock and does not answer or end."""
        pid = read_lock(self._folder).get("pid")
        if isinstance(pid, int) and pid > 1 and pid != os.getpid() and self._has_lock_open(pid):
            log.warning("The engine of the portal in %s hangs. This server kills it.", self._folder)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _has_lock_open(self, pid: int) -> bool:
        """Whether a process is the one that recorded its id, and not another that got this id later."""
        try:
            lock = (self._folder / frames.LOCK).stat()
            return any(os.path.samestat(lock, path.stat()) for path in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return False

    def _start(self) -> subprocess.Popen[bytes]:
        if not is_installed():
            raise Unavailable(
                "Portals need chDB, which is not installed: `memory-mcp doctor`, where the server runs, shows the "
                "command. It has no wheel for Windows and musl; everything else works without it."
            )
        if self._rules.sandbox == "required" and (lacks := sandbox.missing()):
            raise Unavailable(
                f"Portals are off: portal_sandbox is 'required', and this system lacks {' and '.join(lacks)}."
            )
        if self._rules.root is None:
            make_private_folder(self._folder)
            return self._spawn()
        with FileLock(self._rules.root).acquire():
            self._free_slot(self._rules.root)
            started = self._spawn()
            while exit_status(started) is None and not is_running(self._folder):  # then the next one counts it
                time.sleep(POLL_INTERVAL_S)
        return started

    def _free_slot(self, root: Path) -> None:
        """End the engine that has been idle longest if the limit is reached. Raises Unavailable if all are busy."""
        running = [lock for lock in find(root, f"*/*/{frames.LOCK}") if is_running(lock.parent)]
        running = [lock for lock in running if lock.parent != self._folder]
        if len(running) < self._rules.max_engines:
            return
        for lock in sorted(running, key=_used_at):
            if _end_if_idle(lock.parent):
                return
        raise Unavailable(
            f"{self._rules.max_engines} portals are busy, as many as portal_engines allows. Try again soon.",
            retry_after=RETRY_AFTER_S,
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= {"LC_ALL": "C.UTF-8", "TMPDIR": str(self._folder / "tmp")}
        niceness = _STARTS.record(self._rules.root or self._folder)
        log_file = os.open(self._folder / "engine.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(log_file) as output:
            engine = start_module(
                "memory_mcp.engines.chdb.broker",
                environment=environment,
                output=output,
                errors=output,
                niceness=niceness,
                yields=must_yield(niceness, yields_when_busy=self._rules.yields_when_busy),
            )
        orders = {
            "folder": str(self._folder),
            "idle_s": self._rules.idle_s,
            "niceness": niceness,
            "yields_when_busy": self._rules.yields_when_busy,
            "server_niceness": os.getpriority(os.PRIO_PROCESS, 0),
        }
        # Through a pipe: every user sees the arguments of a process.
        with suppress(BrokenPipeError), cast(IO[bytes], engine.stdin) as pipe:
            pipe.write(json.dumps(orders).encode())
        threading.Thread(target=self._reap, args=(engine,), name="engine", daemon=True).start()
        return engine

    def _reap(self, engine: subprocess.Popen[bytes]) -> None:
        """Wait for the process, so that no zombie stays, and log a failure: after a fault in a library, engine.log is
        empty."""
        status = reap(engine)
        if status == ENDED_ITSELF:
            log.warning("The engine of the portal in %s ended itself: a request did not stop.", self._folder)
        elif status:
            why = signal.strsignal(-status) if status < 0 else f"status {status}"
            log.warning("The engine of the portal in %s ended: %s.", self._folder, why)


def wait_until_ended(folder: Path) -> None:
    """Wait for the engine of a folder that was moved away: it ends by itself, and is killed if it does not."""
    deadline = time.monotonic() + LEAVE_TIMEOUT_S
    while is_running(folder):
        if time.monotonic() > deadline:
            EngineProcess(folder, EngineRules()).kill_hung()
            return
        time.sleep(POLL_INTERVAL_S)


def _used_at(lock: Path) -> float:
    """When the engine that holds this lock last ended a request: it touches the file then."""
    try:
        return lock.stat().st_mtime
    except OSError:
        return 0.0


def _end_if_idle(folder: Path) -> bool:
    """End the engine of a portal if it is idle. Whether it has ended."""
    try:
        if not EngineProcess(folder, EngineRules()).request({"op": "leave if idle"})["ok"]:
            return False
    except OSError:  # it is just starting or leaving
        return not is_running(folder)
    deadline = time.monotonic() + LEAVE_TIMEOUT_S
    while is_running(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


def _check_owner(wire: socket.socket) -> None:
    if not unix_sockets.identify(wire).is_trusted():
        raise PermissionError("the socket belongs to another user")
