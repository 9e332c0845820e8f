from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.engines.postgres.cluster import Cluster
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.families.notes.schema import NOTES_FILE

TABLES: TableSet = NOTES_FILE.tables
HERE = Path(__file__).parent


@pytest.fixture
def cluster(postgres_url: str) -> Iterator[Cluster]:
    with closing(Cluster(postgres_url)) as cluster:
        cluster.open([TABLES])
        yield cluster


@pytest.fixture
def tenants(cluster: Cluster) -> PostgresTenants:
    return PostgresTenants(cluster, TABLES, durable=True)
