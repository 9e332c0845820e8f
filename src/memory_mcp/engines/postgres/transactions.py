"""A transaction of one tenant, with the interface of engines/transactions.py."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import RawServerCursor

from memory_mcp.engines.postgres.dialect import returns_rows, translate
from memory_mcp.engines.postgres.pool import LOCK, Cursor, Transaction
from memory_mcp.engines.postgres.texts import PostgresTexts
from memory_mcp.engines.texts import Allowed, Query, Selected, WordTable
from memory_mcp.engines.transactions import Packed, Read, Row, Write
from memory_mcp.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS_PER_FETCH = 1000  # of a server-side cursor

_cursor_numbers = itertools.count()


@dataclass(frozen=True)
class PostgresRead(Read):
    transaction: Transaction
    _prefetched: dict[str, Cursor] = field(default_factory=dict)

    multiplies_vectors = True
    is_file = False

    def all(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Row]:
        statement = translate(sql, values or {})
        cursor = self._prefetched.pop(str(statement), None) if self._prefetched else None
        cursor = cursor or self.transaction.execute(*statement)
        return cursor.fetchall() if returns_rows(sql) else []

    def prefetch(self, *queries: Query) -> None:
        statements = [translate(*query) for query in queries]
        self._prefetched.update(zip(map(str, statements), self.transaction.execute_all(statements), strict=True))

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
        import numpy as np

        [(numbers, cosines)] = self.all(
            f"""
            SELECT coalesce(string_agg(int8send(number), ''::bytea), ''),
                coalesce(string_agg(float4send((-(vector <#> :query_vector))::real), ''::bytea), '')
            FROM ({sql}) AS found(number, vector) WHERE vector_dims(vector) = :query_dimensions
            """,
            {**values, "query_vector": query, "query_dimensions": len(query) // 4},
        )
        return np.frombuffer(numbers, ">i8").astype(np.int64), np.frombuffer(cosines, ">f4").astype(np.float32)


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
