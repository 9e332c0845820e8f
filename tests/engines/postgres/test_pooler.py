"""Transactions through PgBouncer in transaction mode, if it is installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest

from memory_mcp import settings
from memory_mcp.app.postgres import create_peers
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.families.notes.schema import NOTES_FILE
from tests.engines.postgres.test_notifications import CHANGE, Listening
from tests.events import eventually

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
TENANTS, WRITES, SERVER_CONNECTIONS = 6, 10, 3
SAVE = """
    INSERT INTO embedding_space (only_one, name, dimensions, background, chosen_at)
    VALUES (1, :name, 0, :none, '') ON CONFLICT (only_one) DO UPDATE SET dimensions = embedding_space.dimensions + 1
"""

pytestmark = pytest.mark.skipif(PGBOUNCER is None or os.name == "nt", reason="PgBouncer is not installed")


@pytest.fixture
def pooler_url(postgres_url: str) -> Iterator[str]:
    """The URL of the database through PgBouncer, with few connections to the database."""
    parts = urlsplit(postgres_url)
    host = parse_qs(parts.query).get("host", [parts.hostname or "localhost"])[0]
    user = parts.username or "postgres"
    folder = Path(tempfile.mkdtemp(prefix="mmcp-pooler-"))
    folder.chmod(0o777)  # as root it runs as another user
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""
[databases]
* = host={host} port={parts.port or 5432} user={user}
[pgbouncer]
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
auth_type = any
listen_addr =
unix_socket_dir = {folder}
ignore_startup_parameters = extra_float_digits
"""
    )
    owner = Path(host).owner() if Path(host).is_dir() else "daemon"  # who may reach the socket
    as_user = ["-u", owner] if os.geteuid() == 0 else []
    process = subprocess.Popen([str(PGBOUNCER), "-q", *as_user, str(config)], stderr=subprocess.DEVNULL)
    url = f"postgresql://{user}@{parts.path}?host={quote(str(folder), safe='')}&port=6432"
    try:
        eventually(lambda: _answers(url))
        yield url
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    with suppress(psycopg.Error), psycopg.connect(url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)
    return False


def test_many_threads_share_few_connections_and_no_tenant_sees_another(pooler_url: str) -> None:
    with closing(PostgresPool(pooler_url, max_connections=12)) as pool:
        pool.open([NOTES_FILE.tables])
        tenants = PostgresTenants(pool, NOTES_FILE.tables, durable=True)

        def work(number: int) -> None:
            name = f"user-{number % TENANTS}"
            db = tenants.database(name)
            for _ in range(WRITES):
                with db.write() as tx:
                    tx.all(SAVE, {"name": name, "none": b""})
                with db.read() as tx:
                    assert tx.all("SELECT name FROM embedding_space") == [(name,)]

        with ThreadPoolExecutor(2 * TENANTS) as threads:
            list(threads.map(work, range(2 * TENANTS)))
        for number in range(TENANTS):
            with tenants.database(f"user-{number}").read() as tx:
                assert tx.number("SELECT dimensions FROM embedding_space") == 2 * WRITES - 1


def test_past_the_pooler_servers_are_notified_of_changes(pooler_url: str, postgres_url: str, tmp_path: Path) -> None:
    urls = {"database_url": pooler_url, "direct_database_url": postgres_url}
    chosen = settings.load({"data_dir": tmp_path, **urls}, environ={}).settings
    with closing(create_peers(chosen)) as one, closing(create_peers(chosen)) as other:
        listening = Listening(other)
        one.publish(CHANGE)
        assert listening.next() == CHANGE
