"""The running servers of a data directory: each holds a lock file, which the system frees however the server ends.

sessions/leases.py has those of a PostgreSQL.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

from memory_mcp import __version__
from memory_mcp.clock import new_id, stamp, utc_now
from memory_mcp.engines.files.lock import FileLock

ServerKind = Literal["stdio", "shared", "http", ""]  # "": a relay, which holds its sessions itself


@dataclass(frozen=True)
class RunningServer:
    id: str
    pid: int
    kind: ServerKind
    version: str
    started_at: str


class ServerRegistry(Protocol):
    """Which servers run on the same data, and this one among them."""

    kind: ServerKind  # what this server is; set before it is registered
    this: str  # its id

    @property
    def is_this_registered(self) -> bool: ...

    def register_this(self) -> None:
        """Let other processes see that this server runs, and what it is."""

    def register_relay(self, relay_id: str) -> None:
        """Let other processes see that a relay of this server runs, if it does not do so itself."""

    def release_relay(self, relay_id: str) -> None:
        """Leave a relay to the next server."""

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` when other processes may have taken this server for stopped, though it runs."""

    def running(self) -> list[RunningServer]:
        """Every server that runs, the oldest first."""

    def is_running(self, server_id: str) -> bool: ...

    def claim_stopped(self, server_id: str) -> AbstractContextManager[bool]:
        """Whether a server has stopped, so that its sessions may be ended in the block."""

    def delete_stale_locks(self) -> None:
        """Delete what servers left that stopped without removing it."""

    def delete_lock_if_stale(self, server_id: str) -> None: ...

    def close(self) -> None: ...


class Servers:
    """This server and the others on the same data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kind: ServerKind = "stdio"
        self.this = new_id()
        self._registered: ExitStack | None = None

    @property
    def is_this_registered(self) -> bool:
        return self._registered is not None

    def register_this(self) -> None:
        """Hold the lock file by which other processes see that this server runs, and what it is."""
        if self._registered is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            registered = ExitStack()
            lock = self._lock_of(self.this)
            registered.enter_context(lock.acquire())
            this = RunningServer(self.this, os.getpid(), self.kind, __version__, stamp(utc_now()))
            lock.write_note(json.dumps(asdict(this)))
            self._registered = registered

    def register_relay(self, relay_id: str) -> None:
        """Nothing to do: a relay holds a lock file of its own."""

    def release_relay(self, relay_id: str) -> None:
        """Nothing to do."""

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Never called: a process keeps its locks until it ends."""

    def running(self) -> list[RunningServer]:
        """Every server that runs, the oldest first. Servers of versions that wrote no note are not among them."""
        found = []
        for path in self._folder.glob("*.lock"):
            with suppress(ValueError, TypeError):  # it has no note, or that of a version with other fields
                server = RunningServer(**json.loads(self._lock_of(path.stem).note()))
                if self.is_running(path.stem):
                    found.append(server)
        return sorted(found, key=lambda server: server.started_at)

    def close(self) -> None:
        if self._registered is not None:
            self._lock_of(self.this).path.unlink(missing_ok=True)
            self._registered.close()
            self._registered = None

    def is_running(self, server_id: str) -> bool:
        if server_id == self.this:
            return True
        with self.claim_stopped(server_id) as is_stopped:
            return not is_stopped

    @contextmanager
    def claim_stopped(self, server_id: str) -> Iterator[bool]:
        """Whether a server has stopped. No other process can claim it during the block, which deletes its lock file."""
        if not self._folder.is_dir():
            yield True
            return
        lock = self._lock_of(server_id)
        with lock.try_acquire() as is_stopped:
            yield is_stopped
            if is_stopped:
                lock.path.unlink(missing_ok=True)

    def delete_stale_locks(self) -> None:
        """Delete the lock files of servers that stopped without removing theirs."""
        for path in self._folder.glob("*.lock"):
            self.delete_lock_if_stale(path.stem)

    def delete_lock_if_stale(self, server_id: str) -> None:
        if server_id != self.this:
            with self.claim_stopped(server_id):
                pass

    def _lock_of(self, server_id: str) -> FileLock:
        return FileLock(self._folder / f"{server_id}.lock")
