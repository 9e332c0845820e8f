from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.families.notes.schema import NOTES_FILE
from memory_mcp.families.registry import FAMILIES

TABLES: TableSet = NOTES_FILE.tables
ALL_TABLES = [kind.tables for family in FAMILIES.values() for kind in family.databases if kind.postgres]
HERE = Path(__file__).parent


@pytest.fixture
def pool(postgres_url: str) -> Iterator[PostgresPool]:
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open(ALL_TABLES)
        yield pool


@pytest.fixture
def tenants(pool: PostgresPool) -> PostgresTenants:
    return PostgresTenants(pool, TABLES, durable=True)
