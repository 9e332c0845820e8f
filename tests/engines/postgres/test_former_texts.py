"""Rows of recall's index that a former version of the schema has made."""

import shutil
from contextlib import closing
from pathlib import Path

import psycopg

from memory_mcp.engines.postgres import migrations
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.families.recall.family import RECALL_CACHE
from memory_mcp.services.search_index.schema import POSTGRES
from memory_mcp.services.search_index.storage import texts
from tests.engines.postgres.conftest import TABLES

FORMER = "0001_search_index.sql", "0002_vector_changes.sql"
GROUP = "vault/vault"


def test_all_tenants_texts_get_their_sessions_when_they_are_searched_next(postgres_url: str, tmp_path: Path) -> None:
    for name in FORMER:
        shutil.copy(POSTGRES / name, tmp_path)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        migrations.run(connection, [TABLES])
        connection.execute("DROP SCHEMA IF EXISTS memory_recall CASCADE")
        connection.execute("DELETE FROM memory.schema_versions WHERE name = 'recall'")
        migrations.run(connection, [TABLES, TableSet(RECALL_CACHE.name, tmp_path)])
        for tenant in ("ada", "bob"):
            connection.execute("INSERT INTO memory_recall.text_groups VALUES (%s, 1, %s, 'v1')", (tenant, GROUP))
            connection.execute(
                "INSERT INTO memory_recall.texts VALUES (%s, 1, 'id', 1, 'ref', 'label', '', 'tea', TRUE)", (tenant,)
            )
    with closing(PostgresPool(postgres_url)) as pool:
        pool.open([RECALL_CACHE.tables])
        tenants = PostgresTenants(pool, RECALL_CACHE.tables, durable=False)
        for tenant in ("ada", "bob"):
            with tenants.database(tenant).read() as tx:
                assert texts.ids_in(tx, GROUP) == {"id": False}
                assert texts.group_version(tx, GROUP) is None
                [(*_, facts)] = texts.by_seq(tx, [1])
                assert (facts.session_id, facts.written_at) == (None, None)
