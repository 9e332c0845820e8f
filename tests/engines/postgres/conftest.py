from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.families.notes.schema import NOTES_FILE

TABLES: TableSet = NOTES_FILE.tables
HERE = Path(__file__).parent


@pytest.fixture
def pool(postgres_url: str) -> Iterator[PostgresPool]:
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open([TABLES])
        yield pool


@pytest.fixture
def tenants(pool: PostgresPool) -> PostgresTenants:
    return PostgresTenants(pool, TABLES, durable=True)
