"""Portals of several servers on PostgreSQL: on a ClickHouse server, or refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from memory_mcp.app import open_app
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.errors import Invalid
from memory_mcp.settings import Settings
from tests.clickhouse import clickhouse_over_chdb
from tests.engines.postgres.test_server import chosen
from tests.events import eventually
from tests.families.portals.calls import CALLER, PORTAL


@pytest.fixture(scope="module")
def portals_url() -> Iterator[str]:
    with clickhouse_over_chdb() as url:
        yield url


def on_both(data_dir: Path, postgres_url: str, portals_url: str) -> Settings:
    families = "vault,notes,graph,recall,portals"
    return chosen(data_dir, postgres_url, families).model_copy(update={"portals_url": portals_url})


def test_servers_that_share_no_files_write_to_one_portal(
    tmp_path: Path, elsewhere: Path, postgres_url: str, portals_url: str
) -> None:
    with (
        open_app(on_both(tmp_path, postgres_url, portals_url), serving=False) as one,
        open_app(on_both(elsewhere, postgres_url, portals_url), serving=False) as two,
        ThreadPoolExecutor(4) as threads,
    ):

        def write(number: int) -> None:
            (one, two)[number % 2].portals.write(CALLER, PORTAL, "t", [{"n": number, f"c{number % 3}": number}])

        list(threads.map(write, range(12)))
        found = one.portals.query(CALLER, PORTAL, "SELECT n, c0, c1, c2 FROM t ORDER BY n", {}).rows
        assert found == [
            {"n": number, **{f"c{one}": number if number % 3 == one else None for one in range(3)}}
            for number in range(12)
        ]
        assert [portal.address for portal in one.portals.all(CALLER)] == [
            portal.address for portal in two.portals.all(CALLER)
        ]


def test_without_a_clickhouse_server_portals_are_refused(tmp_path: Path, postgres_url: str) -> None:
    settings = chosen(tmp_path, postgres_url, "notes,portals")
    with pytest.raises(Invalid, match="or a ClickHouse server with --portals-url"), open_app(settings):
        raise AssertionError


def test_a_lock_is_held_by_one_server_at_a_time(pool: PostgresPool, postgres_url: str) -> None:
    entered = []

    def enter(other: PostgresPool) -> None:
        with other.lock("portal"):
            entered.append(other)

    with (
        closing(PostgresPool(postgres_url)) as other,
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(postgres_url, autocommit=True) as watching,
    ):
        other.open([])
        with pool.lock("portal"), pool.lock("another"):
            waiting = thread.submit(enter, other)
            blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            eventually(lambda: watching.execute(blocked).fetchone() == (1,))
            assert not entered
        waiting.result()
    assert entered == [other]
