import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import apsw

from memory_mcp.clock import Clock, utc_now
from memory_mcp.engines.files.atomic_write import sync
from memory_mcp.engines.files.lock import LOCK_TIMEOUT_S, FileLock
from memory_mcp.engines.sqlite import migrations, sibling_files
from memory_mcp.engines.sqlite.connections import BUSY_TIMEOUT_MS, Durability, connect, leave_wal, transaction
from memory_mcp.engines.sqlite.transactions import SqliteRead, SqliteWrite
from memory_mcp.errors import NotFound, Unavailable, Unusable

Missing = Literal["create", "create once", "refuse"]
MAX_REOPENS = 10  # of a file, while waiting for its lock
MAX_IDLE_READERS = 8  # readers kept for the next call: each holds pages of the file in memory
MIN_UNUSED_S = 5.0  # after the last call, before a file's connections give back what they hold
MAX_RARE_USES = 100  # in a minute: background work uses files of clients that have nothing to do


class _File:
    """The connections to one file on disk. A file that replaces it has a _File of its own."""

    def __init__(self, path: Path, durability: Durability, generation: int) -> None:
        self.generation = generation
        self._path = path
        self._durability = durability
        self._names = (
            os.fspath(path),
            os.fspath(sibling_files.wal(path)),
        )  # as strings, since every call checks them: Path would take twice as long
        self._identity: tuple[object, object] = (None, None)  # of the file and of its WAL
        self._idle_lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._used_at: float | None = time.monotonic()  # None: its connections have given back what they held since
        self._uses = 0  # since it was last asked whether it is unused
        self._closed = False
        self.writer = connect(path, durability)

    def record_identity(self) -> None:
        """Record which file this is. Only once it has a WAL: a file that was moved away and back has another."""
        self._identity = self._current_identity()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def is_in_place(self) -> bool:
        return not self._closed and self._has_same_identity()

    def _has_same_identity(self) -> bool:
        return self._identity == self._current_identity()

    def _current_identity(self) -> tuple[object, object]:
        file, wal = self._names
        return _identity(file), _identity(wal)

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        with self._idle_lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or connect(self._path, self._durability)
        try:
            yield connection
        finally:
            self.record_use()
            with self._idle_lock:
                keep = not self._closed and len(self._idle) < MAX_IDLE_READERS  # closed: another file took its place
                if keep:
                    self._idle.append(connection)
            if not keep:
                self._release(connection)

    def record_use(self) -> None:
        self._used_at = time.monotonic()
        self._uses += 1

    def is_unused(self) -> bool:
        """Whether it holds something, and had no call for a while, or only a few since this was last asked."""
        uses, self._uses = self._uses, 0
        if self._closed or self._used_at is None:
            return False
        return uses <= MAX_RARE_USES or time.monotonic() - self._used_at >= MIN_UNUSED_S

    def release_unused(self) -> None:
        """Close the readers that no call uses now, and empty the writer's cache and the WAL. Call while holding the
        write lock."""
        self._used_at = None
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._release(connection)
        if not self._closed:
            self._empty_wal()
            self.writer.pragma("shrink_memory")

    def _empty_wal(self) -> None:
        """Write it into the file: otherwise it keeps the size that it had at most, 4 MB or more. If a call or another
        process reads from it now, the next `release_unused` tries again."""
        self.writer.set_busy_timeout(0)
        try:
            _checkpoint(self.writer)
        except apsw.BusyError:
            self._used_at = time.monotonic()
        finally:
            self.writer.set_busy_timeout(BUSY_TIMEOUT_MS)

    def close(self) -> None:
        with self._idle_lock:
            if self._closed:
                return
            self._closed = True
            connections, self._idle = [*self._idle, self.writer], []
        for connection in connections:
            self._release(connection)

    def _release(self, connection: apsw.Connection) -> None:
        if not self._has_same_identity():
            leave_wal(connection)
        connection.close()


class Database:
    """One SQLite file that many threads and processes share. Readers are never blocked; writers wait for a lock.

    When another process removes or replaces the file while it is open, the next call uses the file that has this path
    now: a write into a file without a path would be lost.
    """

    def __init__(
        self,
        path: Path,
        schema: migrations.Schema,
        *,
        backups: Path,
        durability: Durability = "full",
        clock: Clock = utc_now,
        missing: Missing = "create",
        lock: Path | None = None,
    ) -> None:
        """Open the file, create it if it is missing, migrate it if it is old. Raises Unavailable with the reason.

        With `missing` "refuse", a missing file is never created: NotFound is raised. "create once" creates it now and
        refuses later. `lock` is the file that writers lock; by default, it is beside this one.
        """
        self.path = path
        self._generation = 0  # grows when another file has taken the place of this one
        self._schema = schema
        self._backups = backups
        self._durability = durability
        self._clock = clock
        self._missing = missing
        self._when_opened: list[Callable[[Database], None]] = []
        self._lock = FileLock(lock or path.with_name(path.name + ".lock"))
        self._reopening = threading.RLock()
        with translate_errors(path):
            self._file = self._open()
        self._missing = "create" if missing == "create" else "refuse"

    @contextmanager
    def read(self) -> Iterator[SqliteRead]:
        with translate_errors(self.path), (file := self._current_file()).reader() as connection:
            connection.execute("BEGIN")
            try:
                yield SqliteRead(self._clock(), file.generation, connection)
            finally:
                connection.execute("COMMIT")

    @contextmanager
    def write(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[SqliteWrite]:
        """Commit if the block finishes, undo everything if it raises. Raises Unavailable if the lock is not
        free within `timeout_s`."""
        with translate_errors(self.path), self._hold_file(timeout_s) as file:
            file.writer.set_busy_timeout(min(BUSY_TIMEOUT_MS, int(timeout_s * 1000)))
            with transaction(file.writer):
                yield SqliteWrite(self._clock(), file.generation, file.writer)
            if not file.is_in_place():  # checked while holding the lock: later, another thread may have closed it
                raise Unavailable(f"{self.path.name} was moved away while it was written to. Try again.")

    @contextmanager
    def _hold_file(self, timeout_s: float) -> Iterator[_File]:
        """Hold the write lock of the file that has this path now: a process that moves a file away holds it, too."""
        for _ in range(MAX_REOPENS):
            file = self._current_file()
            with self._lock.acquire(timeout_s):
                if file.is_in_place():
                    file.record_use()
                    yield file
                    return
        raise Unavailable(f"{self.path.name} is being moved again and again. Try again.")

    def move(self, target: Path) -> None:
        """Move the file elsewhere with everything that was written to it, while no process writes. This object is of
        no use afterwards. Raises Unavailable, and moves nothing, while another process reads for long."""
        with translate_errors(self.path):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._hold_file(LOCK_TIMEOUT_S) as file:
                if target.exists():
                    raise Unavailable("There is a file where this one should go. Nothing was changed.")
                _checkpoint(file.writer)
                file.close()
                sibling_files.delete_siblings(target)  # of a file that was deleted
                # A new file, not the same under another name: processes that still have the old one open share its
                # locks and its WAL among themselves, and would go on doing so when it comes back.
                _copy(self.path, target)
                sibling_files.delete_database(self.path)
                sync(target.parent)
                sync(self.path.parent)

    def erase_deleted(self) -> None:
        """Write everything from the WAL into the file, and empty it: it holds pages as they were before a deletion.
        Raises Unavailable while another process reads from it for long."""
        with translate_errors(self.path), self._hold_file(LOCK_TIMEOUT_S) as file:
            _checkpoint(file.writer)

    def remove(self) -> None:
        """Delete the file, while no process writes. This object is of no use afterwards."""
        with translate_errors(self.path), self._hold_file(LOCK_TIMEOUT_S) as file:
            file.close()
            sibling_files.delete_database(self.path)

    def check_identity(self) -> None:
        """Open the file again if another has taken its place. Nothing is read or written."""
        with translate_errors(self.path):
            self._current_file()

    def on_open(self, callback: Callable[["Database"], None]) -> None:
        """Call `callback` now, and again each time another file has taken the place of this one."""
        self._when_opened.append(callback)
        callback(self)

    def release_unused(self) -> None:
        """Give back what connections that are open and had nothing to do for a while hold: pages of the file in memory,
        and the WAL on the disk. The file stays open."""
        file = self._file
        if file.is_unused():
            # Otherwise it is in use after all, or cannot be written, which its next call reports.
            with suppress(Unavailable), translate_errors(self.path), self._lock.acquire(0):
                file.release_unused()

    @property
    def is_open(self) -> bool:
        return not self._file.is_closed

    def close(self, timeout_s: float = LOCK_TIMEOUT_S) -> bool:
        """Let the write under way finish, then close. False if it does not finish within `timeout_s`.

        Reads under way go on, and the next call opens the file again.
        """
        try:
            with translate_errors(self.path), self._lock.acquire(timeout_s):
                self._file.close()
        except Unavailable:
            return False
        return True

    def _current_file(self) -> _File:
        if not self._file.is_in_place():
            with self._reopening:
                if not self._file.is_in_place():
                    self._generation += 1
                    former, self._file = self._file, self._open()
                    with self._lock.acquire():  # a write under way in the former file ends first
                        former.close()
                    for callback in self._when_opened:
                        callback(self)
        return self._file

    def _open(self) -> _File:
        for path in (self.path, self._lock.path):
            for folder in reversed([folder for folder in path.parents if not folder.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
        with self._lock.acquire():
            if self._missing == "refuse" and not self.path.exists():
                raise _missing_file()
            prepare_file(self.path, self._lock.note())
        file = _File(self.path, self._durability, self._generation)
        try:
            self._migrate(file.writer)
            file.writer.execute("SELECT 1 FROM sqlite_master").fetchall()  # from here on it has a WAL
            file.record_identity()
        except BaseException:
            file.close()
            raise
        with self._lock.acquire():
            self._lock.write_note(_identities(self.path))
        return file

    def _migrate(self, connection: apsw.Connection) -> None:
        if migrations.is_current(connection, self._schema) and connection.pragma("journal_mode") == "wal":
            return
        # WAL mode cannot be switched on while others use the file, so the first one does it alone.
        with self._lock.acquire():
            if not migrations.is_foreign(connection):
                connection.pragma("journal_mode", "wal")
            migrations.run(connection, self._schema, self._backups, self._clock)
            connection.pragma("journal_mode", "wal")  # not before: a foreign file that is refused stays as it was


def _identity(path: Path | str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # takes names as they are: Path.stat takes twice as long
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _identities(path: Path) -> str:
    """Which file this is, and which WAL is its own."""
    return f"{_identity(path)} {_identity(sibling_files.wal(path))}"


def prepare_file(path: Path, known: str) -> None:
    """Create the file if it is missing, and make sure that the WAL beside it is its own.

    SQLite applies any WAL it finds to a file of that name. So the WAL of a file that was removed or replaced since it
    was last opened (`known`) is renamed. A folder copied as a whole has other identities throughout, and
    keeps its WAL. The file is made here so that only its owner can read it; its WAL takes the same mode.
    """
    wal = str(_identity(sibling_files.wal(path)))
    missing = not path.exists()
    replaced = bool(known) and known.endswith(wal) and not known.startswith(str(_identity(path)))
    if missing or (replaced and wal != str(None)):
        for log in (sibling_files.wal(path), sibling_files.shm(path)):
            if log.exists():
                log.replace(sibling_files.orphan(log))
    if missing:
        path.touch(mode=0o600)


def _checkpoint(connection: apsw.Connection) -> None:
    """Write everything from the WAL into the file. Raises BusyError while a connection still reads from the WAL."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    if busy:
        raise apsw.BusyError


def _copy(path: Path, target: Path) -> None:
    """Copy a file atomically and durably."""
    part = target.with_name(target.name + ".part")
    with path.open("rb") as source, part.open("wb") as copy:
        part.chmod(0o600)
        shutil.copyfileobj(source, copy, 1024 * 1024)
        copy.flush()
        os.fsync(copy.fileno())
    part.replace(target)


def _missing_file() -> NotFound:
    return NotFound("The file was moved or deleted meanwhile.")


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate the driver's errors into ours, for everything that touches a file."""
    try:
        yield
    except apsw.BusyError as exc:
        raise Unavailable("The memory is busy: another program holds it. Nothing was changed; try again.") from exc
    except apsw.FullError as exc:
        raise Unavailable("The disk is full. Nothing was changed; free some space and try again.") from exc
    except (apsw.CorruptError, apsw.NotADBError) as exc:
        raise Unusable(
            f"{path.name} is damaged or not a Memory MCP database. Nothing was changed; "
            "put a backup in its place or move it away."
        ) from exc
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, OSError) as exc:
        raise Unusable(
            f"{path.name} cannot be opened or written. Check that the data directory exists and is yours."
        ) from exc
