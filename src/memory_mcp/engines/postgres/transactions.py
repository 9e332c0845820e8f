"""A transaction of one tenant, with the interface of engines/transactions.py."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import RawServerCursor

from memory_mcp.engines.postgres.dialect import returns_rows, translate
from memory_mcp.engines.postgres.pool import LOCK, Cursor, Statement, Transaction
from memory_mcp.engines.postgres.texts import PostgresTexts
from memory_mcp.engines.texts import Allowed, Query, Selected, WordTable
from memory_mcp.engines.transactions import Packed, Read, Row, Write
from memory_mcp.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS_PER_FETCH = 1000  # of a server-side cursor

NumberType = Literal["i8", "i4", "f4"]  # NumPy's names
_SEND: dict[NumberType, str] = {"i8": "int8send", "i4": "int4send", "f4": "float4send"}

_cursor_numbers = itertools.count()


@dataclass(frozen=True)
class PostgresRead(Read):
    transaction: Transaction
    _prefetched: list[tuple[Statement, Cursor]] = field(default_factory=list)

    multiplies_vectors = True
    is_file = False

    def all(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        statement = translate(sql, values or {})
        cursor = self._take_prefetched(statement) or self.transaction.execute(*statement)
        return cursor.fetchall() if returns_rows(sql) else []

    def _take_prefetched(self, statement: Statement) -> "Cursor | None":
        for index, (known, cursor) in enumerate(self._prefetched):
            if known == statement:
                del self._prefetched[index]
                return cursor
        return None

    def prefetch(self, *queries: Query) -> None:
        statements = [translate(*query) for query in queries]
        self._prefetched.extend(zip(statements, self.transaction.execute_all(statements), strict=True))

    def each(self, sql: str, values: Mapping[str, Any] | None = None) -> Iterator[Any]:
        name = f"each_{next(_cursor_numbers)}"  # a server-side cursor: other statements may run between two rows
        with RawServerCursor(self.transaction.connection, name) as cursor:
            cursor.itersize = ROWS_PER_FETCH
            yield from cursor.execute(*translate(sql, values or {}), binary=True)

    def texts(
        self, table: WordTable, allowed: Allowed | Selected | None = None, *, is_confined: bool = False
    ) -> PostgresTexts:
        return PostgresTexts(self, table, allowed, is_confined)

    def cosines(
        self, sql: str, values: Mapping[str, Any], query: Packed
    ) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Computed by the database: twelve bytes come back for each vector."""
        found = self.read_arrays(
            {"number": ("i8", ["number"]), "cosine": ("f4", ["(-(vector <#> :query_vector))::real"])},
            f"({sql}) AS found(number, vector) WHERE vector_dims(vector) = :query_dimensions",
            {**values, "query_vector": query, "query_dimensions": len(query) // 4},
        )
        return found["number"][:, 0], found["cosine"][:, 0]

    def read_arrays(
        self, fields: Mapping[str, tuple[NumberType, Sequence[str]]], source: str, values: Mapping[str, Any]
    ) -> "dict[str, NDArray[Any]]":
        """Read numbers from many rows, which the database packs into one value: rows would take five times as long.

        `fields`: the type and the SQL columns of each. In its array there is one row for each row of `source`.
        """
        import numpy as np

        columns = [f"{_SEND[type_]}({sql})" for type_, several in fields.values() for sql in several]
        [(data,)] = self.all(
            f"SELECT coalesce(string_agg({' || '.join(columns)}, ''::bytea), '') FROM {source}", values
        )
        layout = [(name, f">{type_}", (len(several),)) for name, (type_, several) in fields.items()]
        found = np.frombuffer(data, np.dtype(layout))
        return {name: found[name].astype(type_) for name, (type_, _) in fields.items()}


@dataclass(frozen=True)
class PostgresWrite(PostgresRead, Write):
    """In pipeline mode: a statement that returns no rows is sent without waiting for its result. If it fails, the next
    statement that returns rows raises the error, or else the commit does."""

    def all(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        cursor = self.transaction.execute(*translate(sql, values or {}))
        return cursor.fetchall() if returns_rows(sql) else []

    def prefetch(self, *queries: Query) -> None:
        """Nothing: what is written before they are asked for may change the rows."""

    def each(self, sql: str, values: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """All rows at once: pipeline mode has no server-side cursors."""
        return iter(self.all(sql, values))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        try:
            with self.transaction.connection.transaction():
                yield
        except (psycopg.DataError, psycopg.IntegrityError) as exc:
            raise Invalid("The database does not accept this value.") from exc

    def lock(self, name: str) -> None:
        self.transaction.execute(LOCK, (name,))
