"""The rows of each user in PostgreSQL, with the interface of access.Tenants, and those of the server itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import psycopg

from memory_mcp.engines.postgres.migrations import BASE
from memory_mcp.engines.postgres.pool import (
    LOCK,
    TENANT_TABLES,
    Connection,
    Cursor,
    PostgresPool,
    Statement,
    Transaction,
    part_tenant,
)
from memory_mcp.engines.postgres.transactions import PostgresRead, PostgresWrite
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import WRITE_TIMEOUT_S, UserDatabase, Write

SERVER_TENANT = "server"  # of rows that belong to no user: no user has this id

REQUIRE_PRESENT: Statement = (b"SELECT memory.require_present()", ())
DEPARTED = "MM001"  # the error of it: the user's rows are in another cell
_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = b"BEGIN"
_SET_TENANT = """
    SELECT set_config('memory.tenant', :tenant, true), set_config('search_path', :search_path, true)
"""


@dataclass(frozen=True)
class UserCell:
    """The connections to the database with a user's rows, as far as this process knows."""

    pool: PostgresPool
    moves: int = 0  # how often the rows were moved


class FindsCells(Protocol):
    """Which database a user's rows are in (cells.py)."""

    def of(self, user: str) -> UserCell: ...

    def find(self, user: str) -> UserCell: ...


class TenantRows:
    """One kind of rows of one tenant. Readers are never blocked; writers wait for these locks, which end with their
    transaction."""

    path = None

    def __init__(
        self, pool: PostgresPool, tables: TableSet, tenant: str, *, durable: bool, locks: Sequence[str] = ()
    ) -> None:
        self._cell = UserCell(pool)
        self._tables = tables
        self._tenant = tenant
        self._durable = durable
        self._locks: list[Statement] = [(LOCK, (name,)) for name in locks]
        self._checks: list[Statement] = []  # after the locks

    @contextmanager
    def read(self) -> Iterator[PostgresRead]:
        with ExitStack() as stack:
            cell = self._known_cell()
            yield PostgresRead(cell.pool.now(), cell.moves, Transaction(partial(self._begin_read, stack)))

    def _begin_read(self, stack: ExitStack, first: Sequence[Statement]) -> tuple[Connection, Sequence[Cursor]]:
        _, connection, results = self._begin(stack, _READ, WRITE_TIMEOUT_S, [*self._checks, *first])
        return connection, results[len(self._checks) :]

    @contextmanager
    def write(self, timeout_s: float = WRITE_TIMEOUT_S) -> Iterator[PostgresWrite]:
        """Begins at once, so that `now` is when the locks are held."""
        with ExitStack() as stack:
            cell, connection, _ = self._begin(stack, _WRITE, timeout_s, [*self._locks, *self._checks])
            stack.enter_context(connection.pipeline())
            yield PostgresWrite(cell.pool.now(), cell.moves, Transaction.begun(connection))

    def _known_cell(self) -> UserCell:
        return self._cell

    def _begin(
        self, stack: ExitStack, begin: bytes, timeout_s: float, after: Sequence[Statement]
    ) -> tuple[UserCell, Connection, Sequence[Cursor]]:
        return self._begin_in(self._cell, stack, begin, timeout_s, after)

    def _begin_in(
        self, cell: UserCell, stack: ExitStack, begin: bytes, timeout_s: float, after: Sequence[Statement]
    ) -> tuple[UserCell, Connection, Sequence[Cursor]]:
        connection, results = stack.enter_context(
            cell.pool.transaction(
                begin, self._tables, self._tenant, timeout_s=timeout_s, durable=self._durable, after=after
            )
        )
        return cell, connection, results


class UserRows(TenantRows):
    """One kind of rows of one user, written by one transaction at a time, in the cell where they are."""

    def __init__(
        self, pool: PostgresPool, tables: TableSet, tenant: str, *, durable: bool, cells: FindsCells | None = None
    ) -> None:
        super().__init__(pool, tables, tenant, durable=durable, locks=[f"{tables.name}/{tenant}"])
        self._cells = cells
        self._user = tenant.partition("/")[0]
        self._checks = [REQUIRE_PRESENT]

    def _known_cell(self) -> UserCell:
        return self._cells.of(self._user) if self._cells else self._cell

    def _begin(
        self, stack: ExitStack, begin: bytes, timeout_s: float, after: Sequence[Statement]
    ) -> tuple[UserCell, Connection, Sequence[Cursor]]:
        try:
            return self._begin_in(self._known_cell(), stack, begin, timeout_s, after)
        except psycopg.Error as exc:
            if exc.sqlstate != DEPARTED or self._cells is None:
                raise
        # No statement of the caller has run, or only the first ones of a read, whose results were not seen.
        return self._begin_in(self._cells.find(self._user), stack, begin, timeout_s, after)

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

    def set_departed(self, user: str, *, is_departed: bool) -> None:
        """Refuse the transactions of a user from now on, with those of all parts, or no longer."""
        change = (
            "INSERT INTO departures DEFAULT VALUES ON CONFLICT DO NOTHING" if is_departed else "DELETE FROM departures"
        )
        for tenant in self._tenants(user):
            self.rows(BASE, tenant).all(change)

    def _tenants(self, user: str) -> list[str]:
        """The parts of a user, and then the user."""
        parts = self.rows(BASE, user).all("SELECT part FROM tenant_parts")
        return [*(part_tenant(user, name) for (name,) in parts), user]

    def delete(self, user: str) -> None:
        """Delete all rows of a user, in every table, with all parts."""
        for tenant in self._tenants(user):
            tx = self.rows(BASE, tenant)
            for (table,) in tx.all(TENANT_TABLES):
                tx.all(f"DELETE FROM {table}")


@contextmanager
def read_all_tenants(pool: PostgresPool) -> Iterator[AllTenants]:
    """All rows as they are at one moment."""
    with pool.transaction(_READ, BASE, SERVER_TENANT, timeout_s=WRITE_TIMEOUT_S) as (connection, _):
        yield AllTenants(PostgresRead(pool.now(), 0, Transaction.begun(connection)))


@contextmanager
def write_all_tenants(pool: PostgresPool) -> Iterator[AllTenants]:
    """Commit if the block finishes, undo everything if it raises."""
    with (
        pool.transaction(_WRITE, BASE, SERVER_TENANT, timeout_s=WRITE_TIMEOUT_S) as (connection, _),
        connection.pipeline(),
    ):
        connection.execute(b"SET CONSTRAINTS ALL DEFERRED")  # rows of a table may refer to later ones
        yield AllTenants(PostgresWrite(pool.now(), 0, Transaction.begun(connection)))


class PostgresTenants:
    """One kind of rows for each user."""

    def __init__(self, pool: PostgresPool, tables: TableSet, *, durable: bool, cells: FindsCells | None = None) -> None:
        self._pool = pool
        self._tables = tables
        self._durable = durable
        self._cells = cells

    def database(self, user: str) -> UserRows:
        return UserRows(self._pool, self._tables, user, durable=self._durable, cells=self._cells)

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
