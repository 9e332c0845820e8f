"""Broken connections, restarts and metrics of the connections to PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import psycopg
import pytest

from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import SharedRows
from memory_mcp.errors import Unavailable
from memory_mcp.server.metrics import PoolCollector
from memory_mcp.services.access import server_db
from tests.events import TIMEOUT_S, eventually

OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = %s"
NAMES = "SELECT name FROM users"


def metrics(pool: PostgresPool) -> dict[str, float]:
    samples = [sample for metric in PoolCollector(pool.stats).collect() for sample in metric.samples]
    return {sample.name + "".join(sample.labels.values()): sample.value for sample in samples}


def disconnect_all(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(OTHERS, (connection.info.dbname,))


def test_transactions_begin_again_after_the_database_closed_every_connection(postgres_url: str) -> None:
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open([server_db.FILE.tables])
        rows = SharedRows(pool, server_db.FILE.tables, durable=True)
        with rows.read() as one, rows.read() as other:  # two connections
            assert one.all(NAMES) == other.all(NAMES) == [("local",)]
        disconnect_all(postgres_url)
        for _ in range(3):
            with rows.read() as tx:
                assert tx.all(NAMES) == [("local",)]
        found = metrics(pool)
        # Until a broken connection is replaced, it counts as used
        eventually(lambda: metrics(pool)["memory_mcp_database_connectionsused"] == 0)
    assert found["memory_mcp_database_retries_total"] >= 1
    assert found["memory_mcp_database_failures_total"] == 0
    assert found["memory_mcp_database_waiting"] == 0


def test_a_connection_lost_inside_a_transaction_is_reported_and_counted(postgres_url: str) -> None:
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open([server_db.FILE.tables])
        rows = SharedRows(pool, server_db.FILE.tables, durable=True)
        with pytest.raises(Unavailable, match="Nothing was changed"), rows.write() as tx:
            tx.all(NAMES)
            disconnect_all(postgres_url)
            tx.all(NAMES)
        assert metrics(pool)["memory_mcp_database_failures_total"] == 1
        with rows.read() as tx:
            assert tx.all(NAMES) == [("local",)]


def test_a_connection_lost_at_the_commit_leaves_it_open_what_happened(postgres_url: str) -> None:
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open([server_db.FILE.tables])
        begun = pool.transaction(b"BEGIN", server_db.FILE.tables, "server", timeout_s=TIMEOUT_S)
        with pytest.raises(Unavailable, match="may or may not have been saved") as raised, begun as (connection, _):
            connection.execute(b"UPDATE users SET name = 'other'")
            disconnect_all(postgres_url)
    assert raised.value.data["may_have_happened"] is True


def test_two_transactions_that_wait_for_each_other_do_so_not_for_long(postgres_url: str) -> None:
    first_locks = Barrier(2)

    with closing(PostgresPool(postgres_url)) as pool, ThreadPoolExecutor(2) as threads:
        pool.open([server_db.FILE.tables])
        rows = SharedRows(pool, server_db.FILE.tables, durable=True)

        def lock(names: tuple[str, str]) -> str:
            try:
                with rows.write() as tx:
                    tx.lock(names[0])
                    tx.all(NAMES)  # the lock is held from here on
                    first_locks.wait(TIMEOUT_S)
                    tx.lock(names[1])
                    tx.all(NAMES)
            except Unavailable as exc:
                return exc.message
            return ""

        messages = sorted(threads.map(lock, [("a", "b"), ("b", "a")]))
    assert messages[0] == ""
    assert "Nothing was changed; try again" in messages[1]
