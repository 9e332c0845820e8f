"""Transactions, locks, tenants and migrations on a real PostgreSQL."""

import select
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from memory_mcp.engines.postgres import migrations
from memory_mcp.engines.postgres.pool import DEFAULT_OPTIONS, PostgresPool, Transaction, connect
from memory_mcp.engines.postgres.tenants import PostgresTenants, TenantRows, write_all_tenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.errors import Invalid, Unavailable, Unusable
from tests.engines.postgres.conftest import TABLES
from tests.events import TIMEOUT_S
from tests.postgres import new_database

ADD = "INSERT INTO sync_tombstones (id, namespace, stamp) VALUES (:id, '', '')"
IDS = "SELECT id FROM sync_tombstones ORDER BY id"


def add(rows: TenantRows, *ids: str) -> None:
    with rows.write() as tx:
        for id_ in ids:
            tx.all(ADD, {"id": id_})


def ids(rows: TenantRows) -> list[str]:
    with rows.read() as tx:
        return [id_ for (id_,) in tx.all(IDS)]


def test_a_tenant_sees_its_own_rows_alone(tenants: PostgresTenants, pool: PostgresPool) -> None:
    ada, bob = tenants.database("ada"), tenants.database("bob")
    add(ada, "a", "shared")
    add(bob, "b", "shared")
    assert (ids(ada), ids(bob)) == (["a", "shared"], ["b", "shared"])
    with bob.write() as tx:
        tx.all("UPDATE sync_tombstones SET stamp = 'changed'")
        tx.all("DELETE FROM sync_tombstones")
    assert (ids(ada), ids(bob)) == (["a", "shared"], [])
    with write_all_tenants(pool) as everything:
        everything.delete("ada")
    assert ids(ada) == []


def test_a_list_arrives_as_it_is(tenants: PostgresTenants) -> None:
    texts = ["a,b", "{c}", 'say "d"', "back\\slash", "", "NULL", None, "ü\n"]
    with tenants.database("ada").read() as tx:
        rows = tx.all(
            "SELECT one FROM unnest(:texts::text[]) WITH ORDINALITY AS a(one, n) ORDER BY n", {"texts": texts}
        )
        assert [one for (one,) in rows] == texts
        assert tx.all("SELECT :reals::float8[]", {"reals": [0.1, -2.5e300]}) == [([0.1, -2.5e300],)]
        assert tx.all("SELECT :numbers::bigint[], :words::text[]", {"numbers": [1, -(2**62)], "words": ["a\0"]}) == [
            ([1, -(2**62)], ["a\N{REPLACEMENT CHARACTER}"])
        ]


def test_prefetched_rows_need_no_further_round_trip(tenants: PostgresTenants, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tenants.database("ada"), "a")
    sent: list[bytes] = []
    run = Transaction.execute

    def execute(transaction: Transaction, sql: bytes, parameters: Sequence[Any]) -> Any:
        sent.append(sql)
        return run(transaction, sql, parameters)

    monkeypatch.setattr(Transaction, "execute", execute)
    wanted = "SELECT id FROM sync_tombstones WHERE id = :id"
    with tenants.database("ada").read() as tx:
        tx.prefetch((IDS, {}), (wanted, {"id": "a"}), (wanted, {"id": "never asked for"}))
        assert tx.all(IDS) == tx.all(wanted, {"id": "a"}) == [("a",)]
        assert sent == []
        assert tx.all(wanted, {"id": "b"}) == []
        assert tx.all(IDS) == [("a",)]
        assert len(sent) == 2


def test_a_row_of_another_tenant_cannot_be_written(tenants: PostgresTenants) -> None:
    with pytest.raises(Unusable), tenants.database("ada").write() as tx:
        tx.all("INSERT INTO sync_tombstones (tenant, id, namespace, stamp) VALUES ('bob', 'x', '', '')")


def test_without_a_tenant_there_is_nothing(tenants: PostgresTenants, postgres_url: str) -> None:
    add(tenants.database("ada"), "a")
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"SET ROLE {migrations.APP_ROLE}")
        connection.execute("SET search_path = memory_notes, memory, public")
        for forget in ("SELECT 1", "SELECT set_config('memory.tenant', '', true)"):
            connection.execute(forget.encode())
            assert connection.execute("SELECT count(*) FROM sync_tombstones").fetchone() == (0,)
            assert connection.execute("SELECT count(*) FROM notes_words").fetchone() == (0,)
            with pytest.raises(psycopg.Error), connection.transaction():
                connection.execute("INSERT INTO sync_tombstones (id, namespace, stamp) VALUES ('x', '', '')")


def test_every_table_has_row_security_and_the_application_owns_nothing(pool: PostgresPool, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            """
            SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner)
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname LIKE 'memory%' AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_versions'
            """
        ).fetchall()
        keys = connection.execute(
            """
            SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class AS c ON c.oid = indrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname LIKE 'memory%' AND c.relname <> 'schema_versions'
            """
        ).fetchall()
    assert len(tables) > 35
    for name, has_security, is_forced, owner in tables:
        assert has_security, name
        assert is_forced or name.endswith("_rows"), name
        assert owner != migrations.APP_ROLE
    assert keys
    assert all("(tenant" in definition for (definition,) in keys)


def test_a_block_that_raises_changes_nothing(tenants: PostgresTenants) -> None:
    ada = tenants.database("ada")
    with pytest.raises(ZeroDivisionError), ada.write() as tx:
        tx.all(ADD, {"id": "a"})
        raise ZeroDivisionError
    assert ids(ada) == []


def test_a_savepoint_is_undone_alone(tenants: PostgresTenants) -> None:
    ada = tenants.database("ada")
    with ada.write() as tx:
        tx.all(ADD, {"id": "a"})
        with pytest.raises(Invalid), tx.savepoint():
            tx.all(ADD, {"id": "b"})
            tx.all(ADD, {"id": "a"})
    assert ids(ada) == ["a"]


def test_a_view_does_not_change(tenants: PostgresTenants) -> None:
    ada = tenants.database("ada")
    with ada.read() as tx:
        assert tx.all(IDS) == []
        add(ada, "a")
        assert tx.all(IDS) == []
    assert ids(ada) == ["a"]


def test_a_writer_waits_for_the_one_before_it(tenants: PostgresTenants) -> None:
    ada = tenants.database("ada")
    with ada.write() as tx:
        tx.all(ADD, {"id": "a"})
        with pytest.raises(Unavailable, match="busy"), ada.write(timeout_s=0.05):
            raise AssertionError
        add(tenants.database("bob"), "b")  # of another tenant: it does not wait
    assert ids(ada) == ["a"]


def test_writers_lose_nothing(tenants: PostgresTenants) -> None:
    def count(_: int) -> None:
        with tenants.database("ada").write() as tx:
            last = tx.number("SELECT count(*) FROM sync_tombstones")
            tx.all(ADD, {"id": f"{last:03}"})

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(count, range(30)))
    assert ids(tenants.database("ada")) == [f"{number:03}" for number in range(30)]


def test_closed_connections_are_replaced(tenants: PostgresTenants, postgres_url: str) -> None:
    ada = tenants.database("ada")
    add(ada, "a")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query <> ''"
        )
    assert ids(ada) == ["a"]
    add(ada, "b")
    assert ids(ada) == ["a", "b"]


def test_a_write_whose_connection_breaks_changes_nothing(tenants: PostgresTenants, postgres_url: str) -> None:
    ada = tenants.database("ada")
    with pytest.raises(Unavailable, match="Nothing was changed"), ada.write() as tx:
        tx.all(ADD, {"id": "a"})
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            pid = tx.number("SELECT pg_backend_pid()")
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        tx.all(ADD, {"id": "b"})
    assert ids(ada) == []


def test_rows_one_by_one(tenants: PostgresTenants) -> None:
    ada = tenants.database("ada")
    add(ada, *(f"{number:04}" for number in range(2100)))
    with ada.read() as tx:
        assert [id_ for (id_,) in tx.each(IDS)] == [f"{number:04}" for number in range(2100)]
        assert next(iter(tx.each(IDS)))[0] == "0000"


def test_migrations_run_once(postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text(
        "CREATE TABLE counted (tenant tenant_id PRIMARY KEY); INSERT INTO counted VALUES ('x')"
    )
    tables = TableSet("once", tmp_path)

    def migrate(_: int) -> int:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            return migrations.run(connection, [TABLES, tables])

    try:
        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(migrate, range(4)))
        assert sorted(made)[:3] == [0, 0, 0]
        assert sum(made) >= 1
        (tmp_path / "0002_b.sql").write_text("ALTER TABLE counted ADD COLUMN more int; SELECT 1/0")
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate(0)
        with psycopg.connect(postgres_url) as connection:
            assert connection.execute("SELECT * FROM memory_once.counted").fetchall() == [("x",)]
    finally:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(
                "DROP SCHEMA memory_once CASCADE; DELETE FROM memory.schema_versions WHERE name = 'once'"
            )


def test_newer_tables_are_refused(pool: PostgresPool, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE memory.schema_versions SET version = version + 1 WHERE name = 'notes'")
        try:
            with pytest.raises(Unusable, match="newer"), closing(PostgresPool(postgres_url)) as other:
                other.open([TABLES])
        finally:
            connection.execute("UPDATE memory.schema_versions SET version = version - 1 WHERE name = 'notes'")


def test_why_a_database_cannot_be_reached_is_in_the_log_alone(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    missing = urlunsplit(urlsplit(postgres_url)._replace(path="/missing"))
    for url, why in (("postgresql://ada:secret@127.0.0.1:1/x", "refused"), (missing, '"missing" does not exist')):
        with pytest.raises(Unavailable, match=r"^The database cannot be reached\. Nothing was changed; try again\.$"):
            open_another(url)
        assert why in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["postgresql:///?nonsense=1", "postgresql://%zz@host/x"])
def test_a_url_that_is_not_valid(url: str) -> None:
    with pytest.raises(Unusable, match="URL is not valid"):
        open_another(url)


def test_a_database_that_vanished_without_a_word_is_noticed(postgres_url: str) -> None:
    """As after a power cut: nothing closes the connections, and nothing answers on them."""
    with closing(connect(f"{postgres_url}&keepalives_idle=77")) as own, closing(PostgresPool(postgres_url)) as pool:
        pool.open([TABLES])
        assert own.info.get_parameters()["keepalives_idle"] == "77"
        with pool._connections.connection() as pooled:
            given = pooled.info.get_parameters()
    assert {name: given[name] for name in DEFAULT_OPTIONS} == {name: str(one) for name, one in DEFAULT_OPTIONS.items()}


def test_a_lock_is_held_for_longer_than_the_database_lets_transactions_be_idle(postgres_url: str) -> None:
    url = f"{postgres_url}&options=-c%20idle_in_transaction_session_timeout%3D100"
    with closing(PostgresPool(url)) as pool, closing(PostgresPool(postgres_url)) as other:
        pool.open([TABLES])
        other.open([TABLES])
        with pool.lock("moves"), closing(connect(url)) as idle:
            idle.execute("BEGIN")
            select.select([idle.fileno()], [], [], TIMEOUT_S)  # until PostgreSQL ends it, which began after the lock
            assert not other._is_free("moves")
        assert other._is_free("moves")


NOTES = "memory_notes.notes"


@pytest.mark.parametrize(
    "damage",
    [
        f"DROP POLICY own ON {NOTES}",
        f"DROP POLICY own ON {NOTES}; CREATE POLICY own ON {NOTES} USING (true)",
        f"ALTER POLICY own ON {NOTES} WITH CHECK (true)",
        f"ALTER TABLE {NOTES} DISABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {NOTES} NO FORCE ROW LEVEL SECURITY",
    ],
)
def test_damaged_row_level_security_is_restored_before_anything_is_read(
    pool: PostgresPool, postgres_url: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(damage.encode())
    open_another(postgres_url)
    assert caplog.messages == [f"Row-level security was damaged and has been restored: {NOTES}"]
    caplog.clear()
    open_another(postgres_url)
    assert caplog.messages == []


def test_a_policy_that_shows_users_the_rows_of_others_is_refused(pool: PostgresPool, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE POLICY reports ON {NOTES} TO pg_monitor USING (true)".encode())
        open_another(postgres_url)  # of another role
        connection.execute(f"CREATE POLICY everyone ON {NOTES} USING (true)".encode())
        try:
            with pytest.raises(Unusable, match=f"read each other's rows in {NOTES}"):
                open_another(postgres_url)
        finally:
            connection.execute(f"DROP POLICY reports ON {NOTES}; DROP POLICY everyone ON {NOTES}".encode())


def test_a_user_without_rights_is_refused_with_what_to_do(pool: PostgresPool, postgres_url: str) -> None:
    url = f"{postgres_url}&user=weak-one"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('CREATE ROLE "weak-one" LOGIN')
        try:
            with pytest.raises(Unusable, match=f'GRANT {migrations.APP_ROLE} TO "weak-one"'):
                open_another(url)
            connection.execute(f'GRANT {migrations.APP_ROLE} TO "weak-one"'.encode())
            open_another(url)
            connection.execute(f"ALTER TABLE {NOTES} DISABLE ROW LEVEL SECURITY".encode())
            with pytest.raises(Unusable, match="not protected by row-level security"):
                open_another(url)
        finally:
            connection.execute('DROP ROLE "weak-one"')
            open_another(postgres_url)  # restores it


def test_an_old_postgresql_or_extension_is_refused_with_what_is_needed(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_database(postgres_server) as url:
        for name, value, message in (
            ("MIN_SERVER_VERSION", 99, "99 or newer is needed"),
            ("MIN_EXTENSION_VERSIONS", {"nonsense": (1, 0)}, "lacks the extension nonsense"),
            ("MIN_EXTENSION_VERSIONS", {"vector": (99, 1)}, "99.1 or newer is needed.*ALTER EXTENSION vector UPDATE"),
        ):
            with monkeypatch.context() as patched, pytest.raises(Unusable, match=message):
                patched.setattr(migrations, name, value)
                open_another(url)


def open_another(url: str) -> None:
    with closing(PostgresPool(url)) as pool:
        pool.open([TABLES])
