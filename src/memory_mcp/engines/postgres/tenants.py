"""Each user's rows in PostgreSQL, with the interface of access.Tenants."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memory_mcp.engines.postgres.pool import PostgresPool, Statement
from memory_mcp.engines.postgres.transactions import PostgresRead, PostgresWrite
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import WRITE_TIMEOUT_S, UserDatabase

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"


class TenantRows:
    """One kind of rows of one user. Readers are never blocked; writers wait for a lock, which ends with its
    transaction."""

    def __init__(self, pool: PostgresPool, tables: TableSet, user: str, *, durable: bool) -> None:
        self._pool = pool
        self._tables = tables
        self._user = user
        self._durable = durable
        self._lock: Statement = (_LOCK, (f"{tables.name}/{user}",))

    @contextmanager
    def read(self) -> Iterator[PostgresRead]:
        with self._pool.transaction(_READ, self._tables, self._user, timeout_s=WRITE_TIMEOUT_S) as connection:
            yield PostgresRead(self._pool.now(), 0, connection)

    @contextmanager
    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> Iterator[PostgresWrite]:
        with (
            self._pool.transaction(
                "BEGIN", self._tables, self._user, timeout_s=timeout_s, durable=self._durable, after=[self._lock]
            ) as connection,
            connection.pipeline(),
        ):
            yield PostgresWrite(self._pool.now(), 0, connection)

    def erase_deleted(self) -> None:
        """Nothing to do: VACUUM removes deleted rows from tables and indexes."""


class PostgresTenants:
    """One kind of rows for each user."""

    def __init__(self, pool: PostgresPool, tables: TableSet, *, durable: bool) -> None:
        self._pool = pool
        self._tables = tables
        self._durable = durable

    def database(self, user: str) -> TenantRows:
        return TenantRows(self._pool, self._tables, user, durable=self._durable)

    def exists(self, user: str) -> bool:
        """Always: a user without rows needs nothing to be created."""
        return True

    def recreate(self, user: str) -> None:
        raise NotImplementedError  # no cache is in PostgreSQL yet

    def opened(self) -> Sequence[UserDatabase]:
        """None: PostgreSQL merges its indexes itself."""
        return ()
