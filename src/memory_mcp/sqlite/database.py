from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from memory_mcp.clock import Clock, stamp, utc_now
from memory_mcp.errors import Unavailable
from memory_mcp.sqlite import migrations
from memory_mcp.sqlite.connections import Durability, connect, transaction
from memory_mcp.sqlite.turns import Turns

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Read:
    """One consistent view of the file: what others commit meanwhile is not seen."""

    connection: apsw.Connection

    def all(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        return self.connection.execute(sql, values or {}).fetchall()

    def each(self, sql: str, values: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Rows one by one, for more than fits in memory."""
        return iter(self.connection.execute(sql, values or {}))

    def one(self, sql: str, values: Mapping[str, Any] | None = None) -> Row | None:
        rows = self.all(sql, values)
        return rows[0] if rows else None

    def number(self, sql: str, values: Mapping[str, Any] | None = None) -> int:
        """The whole number that a query with one row and one column gives, such as a count or an id."""
        return int(self.all(sql, values)[0][0])


@dataclass(frozen=True)
class Write(Read):
    """One unit of work: all of it is kept or none. `now` is the same instant for every row it writes."""

    now: datetime

    @property
    def stamp(self) -> str:
        return stamp(self.now)


class Database:
    """One SQLite file that many threads and processes share. Readers are never blocked; writers take turns."""

    def __init__(
        self,
        path: Path,
        schema: tuple[migrations.Migration, ...],
        *,
        backups: Path,
        durability: Durability = "full",
        clock: Clock = utc_now,
    ) -> None:
        """Open the file, make it if it is missing, migrate it if it is old. Raises Unavailable saying why not."""
        self.path = path
        self._durability = durability
        self._clock = clock
        self._turns = Turns(path.with_name(path.name + ".lock"))
        self._readers: list[apsw.Connection] = []
        with _telling(path):
            _touch(path)
            self._writer = self._open(schema, backups)

    @contextmanager
    def read(self) -> Iterator[Read]:
        with _telling(self.path):
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                try:
                    yield Read(connection)
                finally:
                    connection.execute("COMMIT")
            finally:
                self._readers.append(connection)

    @contextmanager
    def write(self) -> Iterator[Write]:
        """Commit if the block finishes, undo everything if it raises. Raises Unavailable if the turn does not come."""
        with _telling(self.path), self._turns.take(), transaction(self._writer):
            yield Write(self._writer, self._clock())

    def close(self) -> None:
        """Let the write under way finish, then close."""
        with self._turns.take():
            for connection in (*self._readers, self._writer):
                connection.close()

    def _borrow(self) -> apsw.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return connect(self.path, self._durability)

    def _open(self, schema: tuple[migrations.Migration, ...], backups: Path) -> apsw.Connection:
        connection = connect(self.path, self._durability)
        try:
            if not migrations.is_current(connection, schema) or connection.pragma("journal_mode") != "wal":
                # WAL mode cannot be switched on while others use the file, so the first one does it alone.
                with self._turns.take():
                    connection.pragma("journal_mode", "wal")
                    migrations.run(connection, schema, backups, self._clock)
        except BaseException:
            connection.close()
            raise
        return connection


def _touch(path: Path) -> None:
    """Make the file before SQLite does, readable by its owner alone; its WAL takes the same mode."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours, once, for everything that touches a file."""
    try:
        yield
    except apsw.BusyError as exc:
        raise Unavailable("The memory is busy: another program holds it. Nothing was changed; try again.") from exc
    except apsw.FullError as exc:
        raise Unavailable("The disk is full. Nothing was changed; free some space and try again.") from exc
    except (apsw.CorruptError, apsw.NotADBError) as exc:
        raise Unavailable(
            f"{path.name} is damaged or not a Memory MCP database. Nothing was changed; "
            "put a backup in its place or move it away."
        ) from exc
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, OSError) as exc:
        raise Unavailable(
            f"{path.name} cannot be opened or written. Check that the data directory exists and is yours."
        ) from exc
