"""The connections of this process to one PostgreSQL database."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias

import psycopg
from psycopg import RawCursor
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from memory_mcp import retries
from memory_mcp.clock import Clock, new_id, utc_now
from memory_mcp.engines.postgres import migrations, values
from memory_mcp.engines.postgres.migrations import APP_ROLE
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import WRITE_TIMEOUT_S, PoolStats
from memory_mcp.errors import TransactionLost, Unavailable, Unusable

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Cursor: TypeAlias = "psycopg.Cursor[tuple[Any, ...]]"
Statement = tuple[bytes, Sequence[Any]]
POOL_TIMEOUT_S = 10.0  # to wait for a free connection
DEFAULT_OPTIONS = {  # unless the URL has them: a database that vanished without a word is noticed within half a minute
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # in milliseconds
}
MAX_CONNECTIONS = 8
MAX_ATTEMPTS = 5  # to begin a transaction: the server may have closed a pooled connection
PREPARE_AFTER = 2  # executions of a statement
MAX_PREPARED = 500  # statements of a connection: more than all storages have

log = logging.getLogger(__name__)

LOCK = b"SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"  # until the transaction ends
TRY_LOCK = b"SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))"
# For a transaction that only waits for something else. PostgreSQL 16 has no transaction_timeout.
_NO_TIME_LIMITS = b"""
    SELECT set_config(name, '0', true) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""
_SETUP = f"""
    SELECT set_config('role', '{APP_ROLE}', true), set_config('search_path', $4, true),
        set_config('jit', 'off', true), set_config('random_page_cost', '1.1', true),
        set_config('plan_cache_mode', 'force_generic_plan', true),
        set_config('memory.tenant', $1, true), set_config('lock_timeout', $2, true),
        set_config('synchronous_commit', $3, true)
""".encode()

TENANT_TABLES = """
    SELECT format('%I.%I', table_schema, table_name) FROM information_schema.columns
    WHERE column_name = 'tenant' AND table_name <> 'departures'
        AND (table_schema = 'memory' OR starts_with(table_schema, 'memory_'))
        AND has_table_privilege(format('%I.%I', table_schema, table_name), 'DELETE')
    -- vector_changes gets a row for each deleted vector, for other servers' copies. Without word_totals, words that are
    -- deleted are not counted.
    ORDER BY table_name NOT IN ('vector_changes', 'word_totals')
"""


class PostgresPool:
    """Connections for transactions of one tenant each. Nothing connects before `open`."""

    def __init__(self, url: str, *, clock: Clock = utc_now, max_connections: int = MAX_CONNECTIONS) -> None:
        self._url = url
        self._clock = clock
        self._retries = self._failures = 0
        self._connections: ConnectionPool[Connection] = ConnectionPool(
            lambda: conninfo(url),
            min_size=0,
            max_size=max_connections,
            timeout=POOL_TIMEOUT_S,
            kwargs={"autocommit": True, "prepare_threshold": PREPARE_AFTER},
            configure=_configure,
            open=False,
        )

    def open(self, table_sets: Sequence[TableSet]) -> None:
        """Connect, and bring these tables up to date. Raises Unavailable or Unusable. The log says why there is no
        connection, which names the host and the user."""
        with translate_errors():
            try:
                connection = connect(self._url)
            except psycopg.OperationalError as exc:
                log.warning("PostgreSQL cannot be reached: %s", exc)
                raise
            with connection:
                migrations.run(connection, table_sets)
            self._connections.open()

    def to(self, url: str) -> "PostgresPool":
        """Connections to another database."""
        return PostgresPool(url, clock=self._clock)

    def close(self) -> None:
        self._connections.close()

    def stats(self) -> PoolStats:
        found = self._connections.get_stats()
        size, idle = found.get("pool_size", 0), found.get("pool_available", 0)
        return PoolStats(size - idle, idle, found.get("requests_waiting", 0), self._retries, self._failures)

    def now(self) -> datetime:
        return self._clock()

    @contextmanager
    def transaction(
        self,
        begin: bytes,
        tables: TableSet,
        tenant: str,
        *,
        timeout_s: float,
        durable: bool = True,
        after: Sequence[Statement] = (),
    ) -> Iterator[tuple[Connection, Sequence[Cursor]]]:
        """A connection in a transaction of one tenant, and the results of the statements `after` its begin: all are one
        round trip. The transaction commits if the block finishes, and is undone if it raises."""
        lock_timeout_ms = str(max(1, int(timeout_s * 1000)))
        setup = (_SETUP, (tenant, lock_timeout_ms, "on" if durable else "off", tables.search_path))
        with self._translate_errors():
            connection, results = self._begin([(begin, ()), setup, *after])
        try:
            with self._translate_errors(has_begun=True):
                yield connection, results[2:]
        except BaseException:
            self._finish(connection, "ROLLBACK")
            raise
        is_read = begin.endswith(b"READ ONLY")
        with self._translate_errors(has_begun=True, in_doubt=not is_read):
            self._finish(connection, "COMMIT")
        if not is_read:
            retries.record_commit()

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock of a name among all servers on this database. Raises Unavailable if another holds it long."""
        with self._translate_errors(), self._connections.connection() as connection, connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{int(WRITE_TIMEOUT_S * 1000)}'")
            connection.execute(_NO_TIME_LIMITS)
            connection.execute(LOCK, (name,))
            yield

    def is_same_database(self, other: "PostgresPool") -> bool:
        """Whether both URLs lead to one database, whose locks they share."""
        name = new_id()
        with self.lock(name):
            return not other._is_free(name)

    def _is_free(self, name: str) -> bool:
        with self._translate_errors(), self._connections.connection() as connection:
            [(is_free,)] = connection.execute(TRY_LOCK, (name,)).fetchall()
        return bool(is_free)

    @contextmanager
    def _translate_errors(self, *, has_begun: bool = False, in_doubt: bool = False) -> Iterator[None]:
        try:
            with translate_errors(has_begun=has_begun, in_doubt=in_doubt):
                yield
        except Unavailable as exc:
            if isinstance(exc.__cause__, psycopg.Error):
                self._failures += 1
            raise

    def _begin(self, statements: Sequence[Statement]) -> tuple[Connection, Sequence[Cursor]]:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            connection = self._connections.getconn()
            try:
                with connection.pipeline():
                    results = [connection.execute(*statement, binary=True) for statement in statements]
                return connection, results
            except psycopg.OperationalError as exc:
                # The server restarted, or a standby replaced it. No statement of the caller has run: retrying is safe.
                self._finish(connection, "ROLLBACK")
                if isinstance(exc, psycopg.errors.LockNotAvailable) or attempt == MAX_ATTEMPTS:
                    raise
                self._retries += 1
                if attempt == 1:
                    self._connections.check()  # replaces all that the server has closed
            except BaseException:
                self._finish(connection, "ROLLBACK")
                raise
        raise AssertionError

    def _finish(self, connection: Connection, command: str) -> None:
        try:
            if command == "COMMIT" or not connection.closed:
                connection.execute(command.encode())
        except psycopg.OperationalError:
            if command == "COMMIT":
                raise
            connection.close()
        finally:
            self._connections.putconn(connection)


class Transaction:
    """A transaction that begins with its first statements, so that they need no further round trip."""

    def __init__(
        self,
        begin: Callable[[Sequence[Statement]], tuple[Connection, Sequence[Cursor]]],
        connection: "Connection | None" = None,
    ) -> None:
        self._begin = begin
        self._connection = connection

    @classmethod
    def begun(cls, connection: Connection) -> "Transaction":
        return cls(lambda first: (connection, ()), connection)

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            self._connection, _ = self._begin(())
        return self._connection

    def execute(self, sql: bytes, parameters: Sequence[Any]) -> Cursor:
        if self._connection is None:
            [cursor] = self.execute_all([(sql, parameters)])
            return cursor
        return self._connection.execute(sql, parameters, binary=True)

    def execute_all(self, statements: Sequence[Statement]) -> Sequence[Cursor]:
        """In one round trip."""
        if self._connection is None:
            self._connection, results = self._begin(statements)
            return results
        with self._connection.pipeline():
            return [self._connection.execute(*statement, binary=True) for statement in statements]


def conninfo(url: str) -> str:
    """A database URL with our defaults. Raises Unusable if it is not valid."""
    try:
        given: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        raise Unusable("The database URL is not valid. It looks like postgresql://user@host/database.") from exc
    return make_conninfo(**(DEFAULT_OPTIONS | given))


def connect(url: str) -> Connection:
    """A connection of its own, in autocommit."""
    return psycopg.connect(conninfo(url), autocommit=True)


def part_tenant(user: str, name: str) -> str:
    """The tenant that a part of a user's rows is. No user's id contains a slash."""
    return f"{user}/{name}"


def _configure(connection: Connection) -> None:
    if connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,):
        connection.prepare_threshold = None  # a pooler: the next transaction may run in another server process
    connection.prepared_max = MAX_PREPARED
    values.register(connection)
    connection.cursor_factory = RawCursor


@contextmanager
def translate_errors(*, has_begun: bool = False, in_doubt: bool = False) -> Iterator[None]:
    """Raise our errors for those of the driver. `has_begun`: the transaction is lost. `in_doubt`: it may have been
    committed."""
    try:
        yield
    except psycopg.errors.LockNotAvailable as exc:
        raise Unavailable("The memory is busy: another write takes too long. Nothing was changed; try again.") from exc
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as exc:
        raise TransactionLost("The memory is busy: another change came first. Nothing was changed; try again.") from exc
    except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory) as exc:
        raise Unavailable("The database is out of space. Nothing was changed; free some space and try again.") from exc
    except (psycopg.OperationalError, PoolTimeout) as exc:
        if in_doubt:
            raise Unavailable(
                "The database cannot be reached. The change may or may not have been saved. Look at what is stored "
                "before you repeat it.",
                may_have_happened=True,
            ) from exc
        error = TransactionLost if has_begun else Unavailable
        raise error("The database cannot be reached. Nothing was changed; try again.") from exc
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as exc:
        raise Unusable("The tables of the database are not those of this program. Restart the server.") from exc
