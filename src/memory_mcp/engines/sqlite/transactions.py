"""Transactions of one SQLite connection."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

from memory_mcp.engines.sqlite.texts import Fts5Texts
from memory_mcp.engines.texts import Allowed, Selected, WordTable
from memory_mcp.engines.transactions import Packed, Read, Row, Write
from memory_mcp.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SqliteRead(Read):
    connection: apsw.Connection

    multiplies_vectors = False
    is_file = True

    def all(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        return self.connection.execute(sql, values or {}).fetchall()

    def each(self, sql: str, values: Mapping[str, Any] | None = None) -> Iterator[Any]:
        return iter(self.connection.execute(sql, values or {}))

    def texts(
        self, table: WordTable, allowed: Allowed | Selected | None = None, *, is_confined: bool = False
    ) -> Fts5Texts:
        return Fts5Texts(self, table, allowed, is_confined)

    def cosines(
        self, sql: str, values: Mapping[str, Any], query: Packed
    ) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        import numpy as np  # takes a while, and most processes need none of it

        rows = [(number, blob) for number, blob in self.all(sql, values) if len(blob) == len(query)]
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f4").reshape(len(rows), len(query) // 4)
        return np.array([number for number, _ in rows], dtype=np.int64), vectors @ np.frombuffer(query, dtype="<f4")


@dataclass(frozen=True)
class SqliteWrite(SqliteRead, Write):
    @contextmanager
    def savepoint(self) -> Iterator[None]:
        try:
            with self.connection:  # a savepoint
                yield
        except (apsw.SQLError, apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, OverflowError) as exc:
            raise Invalid("The database does not accept this value.") from exc

    def lock(self, name: str) -> None:
        """Nothing to do: no other transaction writes to this file now."""
