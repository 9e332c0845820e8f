"""Transactions as storages use them, on either engine.

SQL is written once, for both engines. engines/postgres/dialect.py translates it for PostgreSQL.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from memory_mcp.clock import precise_stamp, stamp
from memory_mcp.engines.texts import Allowed, Query, Selected, Texts, WordTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = tuple[Any, ...]
WRITE_TIMEOUT_S = 30.0  # how long a write waits for the one before it


class Packed(bytes):
    """A vector of float32, little-endian: a BLOB in SQLite, a vector in PostgreSQL."""

    __slots__ = ()


@dataclass(frozen=True)
class Read(ABC):
    """One consistent view: later commits of others are not seen. `now` is when it was opened."""

    now: datetime
    generation: int  # changes when all rows were replaced, as by another file

    multiplies_vectors: ClassVar[bool]
    """Whether `cosines` of every vector is fast. Otherwise a process needs a copy of them (search/vector_cache.py)."""

    is_file: ClassVar[bool]
    """Whether the rows are in a file, to which other programs may write, too."""

    @property
    def stamp(self) -> str:
        return stamp(self.now)

    @property
    def precise_stamp(self) -> str:
        return precise_stamp(self.now)

    @abstractmethod
    def all(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]: ...

    def prefetch(self, *queries: Query) -> None:  # noqa: B027
        """Say which rows `all` will be asked for soon: a database server then sends all of them in one round trip."""

    @abstractmethod
    def each(self, sql: str, values: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Rows one by one, for more than fits in memory."""

    def one(self, sql: str, values: Mapping[str, Any] | None = None) -> Row | None:
        rows = self.all(sql, values)
        return rows[0] if rows else None

    def number(self, sql: str, values: Mapping[str, Any] | None = None) -> int:
        """The whole number that a query with one row and one column gives, such as a count or an id."""
        return int(self.all(sql, values)[0][0])

    @abstractmethod
    def texts(self, table: WordTable, allowed: Allowed | Selected | None = None, *, is_confined: bool = False) -> Texts:
        """A full-text index. Searches find the `allowed` texts only. `is_confined`: ranks do not depend on others."""

    @abstractmethod
    def cosines(
        self, sql: str, values: Mapping[str, Any], query: Packed
    ) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """The numbers that a statement selects, each with a unit vector, and the cosine of each vector with the query.
        Vectors of other lengths are left out."""


class Write(Read):
    """One unit of work: all of it is kept or none. `now` is the same instant for every row it writes."""

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[None]:
        """A savepoint: the writes of the block are undone if it raises, and the transaction may go on.

        Raises Invalid for values that the database does not take.
        """

    @abstractmethod
    def lock(self, name: str) -> None:
        """Wait until no other transaction holds the lock of this name, and hold it until this one ends. Statements
        after it see what the others committed. Only a SharedDatabase needs it: elsewhere all writers wait."""


@dataclass(frozen=True)
class PoolStats:
    """The connections of this process to a database server, and what went wrong since it started."""

    used: int
    idle: int
    waiting: int  # calls that wait for a connection
    retries: int  # transactions begun again after a broken connection
    failures: int  # transactions that ended as unavailable


class UserDatabase(Protocol):
    """One user's rows of one kind: a SQLite file, or the rows of one tenant."""

    @property
    def path(self) -> Path | None:
        """Of the file. None for rows of a database server."""

    def read(self) -> AbstractContextManager[Read]: ...

    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> AbstractContextManager[Write]:
        """Commit if the block finishes, undo everything if it raises. Raises Unavailable if another write does not
        finish within `timeout_s`."""

    def erase_deleted(self) -> None:
        """Remove what the engine still holds of deleted rows, as far as it can at once."""


class SharedDatabase(Protocol):
    """The server's own rows of one kind, for all users: a SQLite file, or rows that no user's transaction sees.

    In PostgreSQL writers do not wait for each other: storages lock what they read before they write (`Write.lock`).
    """

    def read(self) -> AbstractContextManager[Read]: ...

    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> AbstractContextManager[Write]:
        """Commit if the block finishes, undo everything if it raises."""

    def check_identity(self) -> None:
        """Notice that another file has taken the place of this one. Nothing is read or written."""

    def on_open(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` now, and again each time another file has taken the place of this one."""


class UserDatabases(Protocol):
    """One kind of rows for each user."""

    def database(self, user: str) -> UserDatabase:
        """Opened at first use."""

    def exists(self, user: str) -> bool:
        """Whether this user has any. Creates nothing."""

    def recreate(self, user: str) -> None:
        """Delete a user's rows, which must be a cache."""

    def opened(self) -> Sequence[UserDatabase]:
        """Those whose full-text indexes are merged now and then."""


class PartedDatabases(Protocol):
    """One kind of rows of which each user has several parts, such as projects. No transaction of one part sees another
    part."""

    def part(self, user: str, name: str) -> UserDatabase: ...

    def in_new_part(self, tx: Write, user: str, name: str) -> AbstractContextManager[None]:
        """Create a part, in a write of the same user's rows. The block writes to the part."""

    def delete_part(self, tx: Write, user: str, name: str) -> None:
        """Delete a part with all its rows, in a write of the same user's rows. Waits until no other write uses it."""
