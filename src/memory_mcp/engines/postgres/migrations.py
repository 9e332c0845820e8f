"""Numbered migrations, each run once, however many servers start at the same time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from memory_mcp.engines.table_set import BASE_SCHEMA, TableSet
from memory_mcp.errors import Unusable

APP_ROLE = "memory_mcp_app"  # owns nothing; every transaction runs as this role
MIGRATION_LOCK_ID = 0x4D4D4350  # "MMCP"
_HERE = Path(__file__).parent
_CREATE_ROLE = f"""
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{APP_ROLE}') THEN CREATE ROLE {APP_ROLE} NOLOGIN; END IF;
    IF NOT pg_has_role(current_user, '{APP_ROLE}', 'MEMBER') THEN
        EXECUTE format('GRANT {APP_ROLE} TO %I', current_user);
    END IF;
END $$
"""

_CREATE_VERSIONS = "CREATE TABLE IF NOT EXISTS schema_versions (name text PRIMARY KEY, version int NOT NULL)"
_SET_VERSION = f"""
    INSERT INTO {BASE_SCHEMA}.schema_versions VALUES (%s, %s)
    ON CONFLICT (name) DO UPDATE SET version = excluded.version
"""

BASE = TableSet("base", _HERE / "base")


def run(connection: psycopg.Connection[Any], table_sets: Sequence[TableSet]) -> int:
    """Bring the tables up to date, all or none of them, and return how many migrations ran. Raises Unusable if a newer
    version has created the tables, or if the user of the database URL may not change them."""
    count = 0
    try:
        with connection.transaction():
            if _are_current(connection, table_sets):
                return 0
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK_ID,))
            connection.execute(_CREATE_ROLE)
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {BASE_SCHEMA}")
            connection.execute(f"SET LOCAL search_path = {BASE_SCHEMA}, public")
            connection.execute(_CREATE_VERSIONS)
            for table_set in (BASE, *table_sets):
                count += _migrate(connection, table_set)
            connection.execute((_HERE / "row_security.sql").read_text(encoding="utf-8").encode())
    except psycopg.errors.InsufficientPrivilege as exc:
        raise Unusable(
            "The tables of this database are missing or old, and the user of --database-url may not change them. Start "
            "a server once with the owner's URL."
        ) from exc
    return count


def _are_current(connection: psycopg.Connection[Any], table_sets: Sequence[TableSet]) -> bool:
    row = connection.execute(f"SELECT to_regclass('{BASE_SCHEMA}.schema_versions') IS NOT NULL").fetchone()
    if not row or not row[0]:
        return False
    return all(_version(connection, tables.name) == tables.steps()[-1][0] for tables in (BASE, *table_sets))


def _version(connection: psycopg.Connection[Any], name: str) -> int:
    row = connection.execute(f"SELECT version FROM {BASE_SCHEMA}.schema_versions WHERE name = %s", (name,)).fetchone()
    return int(row[0]) if row else 0


def _migrate(connection: psycopg.Connection[Any], table_set: TableSet) -> int:
    steps, found = table_set.steps(), _version(connection, table_set.name)
    newest = steps[-1][0]
    if found > newest:
        raise Unusable(
            f"The tables of {table_set.name} were created by a newer Memory MCP (their schema is {found}, this program "
            f"knows {newest}). Nothing was changed. Upgrade memory-mcp."
        )
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {table_set.schema}")
    connection.execute(f"SET LOCAL search_path = {table_set.search_path}")
    for number, sql in steps:
        if number > found:
            connection.execute(sql.encode())
    connection.execute(_SET_VERSION, (table_set.name, newest))
    return sum(number > found for number, _ in steps)
