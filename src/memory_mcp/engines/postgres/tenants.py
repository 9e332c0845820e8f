"""The rows of each user in PostgreSQL, with the interface of access.Tenants, and those of the server itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from memory_mcp.engines.postgres.migrations import BASE
from memory_mcp.engines.postgres.pool import TENANT_TABLES, PostgresPool, Statement, part_tenant
from memory_mcp.engines.postgres.transactions import LOCK, PostgresRead, PostgresWrite
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import WRITE_TIMEOUT_S, UserDatabase, Write

SERVER_TENANT = "server"  # of rows that belong to no user: no user has this id

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SET_TENANT = """
    SELECT set_config('memory.tenant', :tenant, true), set_config('search_path', :search_path, true)
"""


class TenantRows:
    """One kind of rows of one tenant. Readers are never blocked; writers wait for these locks, which end with their
    transaction."""

    def __init__(
        self, pool: PostgresPool, tables: TableSet, tenant: str, *, durable: bool, locks: Sequence[str] = ()
    ) -> None:
        self._pool = pool
        self._tables = tables
        self._tenant = tenant
        self._durable = durable
        self._locks: list[Statement] = [(LOCK, (name,)) for name in locks]

    @contextmanager
    def read(self) -> Iterator[PostgresRead]:
        with self._pool.transaction(_READ, self._tables, self._tenant, timeout_s=WRITE_TIMEOUT_S) as connection:
            yield PostgresRead(self._pool.now(), 0, connection)

    @contextmanager
    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> Iterator[PostgresWrite]:
        with (
            self._pool.transaction(
                "BEGIN", self._tables, self._tenant, timeout_s=timeout_s, durable=self._durable, after=self._locks
            ) as connection,
            connection.pipeline(),
        ):
            yield PostgresWrite(self._pool.now(), 0, connection)


class UserRows(TenantRows):
    """One kind of rows of one user, written by one transaction at a time."""

    def __init__(self, pool: PostgresPool, tables: TableSet, user: str, *, durable: bool) -> None:
        super().__init__(pool, tables, user, durable=durable, locks=[f"{tables.name}/{user}"])

    def erase_deleted(self) -> None:
        """Nothing to do: VACUUM removes deleted rows from tables and indexes."""


class SharedRows(TenantRows):
    """One kind of the server's own rows, for all users. Writers do not wait for each other."""

    def __init__(self, pool: PostgresPool, tables: TableSet, *, durable: bool) -> None:
        super().__init__(pool, tables, SERVER_TENANT, durable=durable)

    def check_identity(self) -> None:
        """Nothing to do: tables are not replaced while a server runs."""

    def on_open(self, callback: Callable[[Any], None]) -> None:
        callback(self)


class AllTenants:
    """One transaction over the rows of many tenants, for moving them and for backups."""

    def __init__(self, tx: PostgresRead) -> None:
        self._tx = tx

    def rows(self, tables: TableSet, tenant: str) -> PostgresRead:
        """The transaction, for the rows of this tenant from now on."""
        self._tx.all(_SET_TENANT, {"tenant": tenant, "search_path": tables.search_path})
        return self._tx

    def written_rows(self, tables: TableSet, tenant: str) -> PostgresWrite:
        """The same, to change them. Raises TypeError if the transaction only reads."""
        tx = self.rows(tables, tenant)
        if not isinstance(tx, PostgresWrite):
            raise TypeError("This transaction only reads.")
        return tx

    def delete(self, user: str) -> None:
        """Delete all rows of a user, in every table, with all parts."""
        parts = self.rows(BASE, user).all("SELECT part FROM tenant_parts")
        for tenant in (*(part_tenant(user, name) for (name,) in parts), user):
            tx = self.rows(BASE, tenant)
            for (table,) in tx.all(TENANT_TABLES):
                tx.all(f"DELETE FROM {table}")


@contextmanager
def read_all_tenants(pool: PostgresPool) -> Iterator[AllTenants]:
    """All rows as they are at one moment."""
    with pool.transaction(_READ, BASE, SERVER_TENANT, timeout_s=WRITE_TIMEOUT_S) as connection:
        yield AllTenants(PostgresRead(pool.now(), 0, connection))


@contextmanager
def write_all_tenants(pool: PostgresPool) -> Iterator[AllTenants]:
    """Commit if the block finishes, undo everything if it raises."""
    with (
        pool.transaction("BEGIN", BASE, SERVER_TENANT, timeout_s=WRITE_TIMEOUT_S) as connection,
        connection.pipeline(),
    ):
        connection.execute(b"SET CONSTRAINTS ALL DEFERRED")  # rows of a table may refer to later ones
        yield AllTenants(PostgresWrite(pool.now(), 0, connection))


class PostgresTenants:
    """One kind of rows for each user."""

    def __init__(self, pool: PostgresPool, tables: TableSet, *, durable: bool) -> None:
        self._pool = pool
        self._tables = tables
        self._durable = durable

    def database(self, user: str) -> UserRows:
        return UserRows(self._pool, self._tables, user, durable=self._durable)

    def exists(self, user: str) -> bool:
        """Always: a user without rows needs nothing to be created."""
        return True

    def recreate(self, user: str) -> None:
        with self.database(user).write() as tx:
            for (table,) in tx.all(TENANT_TABLES):
                if table.startswith(f"{self._tables.schema}."):
                    tx.all(f"DELETE FROM {table}")

    def part(self, user: str, name: str) -> UserRows:
        return self.database(part_tenant(user, name))

    @contextmanager
    def in_new_part(self, tx: Write, user: str, name: str) -> Iterator[None]:
        tx.all("INSERT INTO tenant_parts (part) VALUES (:part)", {"part": name})
        with self._in_part(tx, user, name):
            yield

    def delete_part(self, tx: Write, user: str, name: str) -> None:
        with self._in_part(tx, user, name):
            for (table,) in tx.all(TENANT_TABLES):
                tx.all(f"DELETE FROM {table}")
        tx.all("DELETE FROM tenant_parts WHERE part = :part", {"part": name})

    @contextmanager
    def _in_part(self, tx: Write, user: str, name: str) -> Iterator[None]:
        """The statements of the block are for a part, and wait for its other writes."""
        [(before,)] = tx.all("SELECT current_setting('search_path')")
        tenant = part_tenant(user, name)
        tx.all(_SET_TENANT, {"tenant": tenant, "search_path": self._tables.search_path})
        tx.lock(f"{self._tables.name}/{tenant}")
        yield
        tx.all(_SET_TENANT, {"tenant": user, "search_path": before})

    def opened(self) -> Sequence[UserDatabase]:
        """None: PostgreSQL merges its indexes itself."""
        return ()
