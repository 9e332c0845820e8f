"""The rows of each user, as access.Tenants has their files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memory_mcp.engines.postgres.cluster import Cluster, Statement
from memory_mcp.engines.postgres.transactions import PostgresRead, PostgresWrite
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import WRITE_TIMEOUT_S, UserDatabase

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"


class TenantRows:
    """One kind of rows of one user. Readers are never blocked; writers wait for a lock, which ends with its
    transaction, however that ends."""

    def __init__(self, cluster: Cluster, tables: TableSet, user: str, *, durable: bool) -> None:
        self._cluster = cluster
        self._tables = tables
        self._user = user
        self._durable = durable
        self._lock: Statement = (_LOCK, (f"{tables.name}/{user}",))

    @contextmanager
    def read(self) -> Iterator[PostgresRead]:
        with self._cluster.transaction(_READ, self._tables, self._user, timeout_s=WRITE_TIMEOUT_S) as connection:
            yield PostgresRead(self._cluster.now(), 0, connection)

    @contextmanager
    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> Iterator[PostgresWrite]:
        with (
            self._cluster.transaction(
                "BEGIN", self._tables, self._user, timeout_s=timeout_s, durable=self._durable, after=[self._lock]
            ) as connection,
            connection.pipeline(),
        ):
            yield PostgresWrite(self._cluster.now(), 0, connection)

    def erase_deleted(self) -> None:
        """Nothing to do: VACUUM removes deleted rows from tables and indexes."""


class PostgresTenants:
    def __init__(self, cluster: Cluster, tables: TableSet, *, durable: bool) -> None:
        self._cluster = cluster
        self._tables = tables
        self._durable = durable

    def database(self, user: str) -> TenantRows:
        return TenantRows(self._cluster, self._tables, user, durable=self._durable)

    def exists(self, user: str) -> bool:
        """Every user does: to look for rows creates none."""
        return True

    def recreate(self, user: str) -> None:
        raise NotImplementedError  # no cache is in PostgreSQL yet

    def opened(self) -> Sequence[UserDatabase]:
        """None: a GIN index is merged by PostgreSQL itself."""
        return ()
