"""Numbered migrations, each run once, however many servers start at the same time, and row-level security."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from memory_mcp.engines.postgres.catalog import UNPROTECTED_TABLES
from memory_mcp.engines.table_set import BASE_SCHEMA, TableSet
from memory_mcp.errors import Unusable

APP_ROLE = "memory_mcp_app"  # owns nothing; every transaction runs as this role
MIGRATION_LOCK_ID = 0x4D4D4350  # "MMCP"
MIN_SERVER_VERSION = 16
MIN_EXTENSION_VERSIONS = {"vector": (0, 7), "btree_gin": (1, 3)}
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

_EXTENSIONS = "SELECT name, coalesce(installed_version, default_version) FROM pg_available_extensions"
_MEMBERSHIP = f"""
    SELECT quote_ident(current_user), pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles
    WHERE rolname = '{APP_ROLE}'
"""

BASE = TableSet("base", _HERE / "base")
log = logging.getLogger(__name__)


def run(connection: psycopg.Connection[Any], table_sets: Sequence[TableSet]) -> int:
    """Bring the tables up to date, all or none of them, and return how many migrations ran. Row-level security that is
    damaged is restored. Raises Unusable if this PostgreSQL is too old, if a newer version has created the tables, or if
    the user of the database URL may not use or change them."""
    version = connection.info.server_version // 10_000
    if version < MIN_SERVER_VERSION:
        raise Unusable(f"This is PostgreSQL {version}, and {MIN_SERVER_VERSION} or newer is needed.")
    try:
        with connection.transaction():
            if _are_current(connection, table_sets) and not _unprotected_tables(connection):
                return 0
            return _migrate_all(connection, table_sets)
    except psycopg.errors.InsufficientPrivilege as exc:
        raise _refusal(connection) from exc


def _migrate_all(connection: psycopg.Connection[Any], table_sets: Sequence[TableSet]) -> int:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK_ID,))
    _check_extensions(connection)
    connection.execute(_CREATE_ROLE)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {BASE_SCHEMA}")
    connection.execute(f"SET LOCAL search_path = {BASE_SCHEMA}, public")
    connection.execute(_CREATE_VERSIONS)
    damaged = _unprotected_tables(connection)
    count = sum(_migrate(connection, table_set) for table_set in (BASE, *table_sets))
    connection.execute((_HERE / "row_security.sql").read_text(encoding="utf-8").encode())
    if unprotected := _unprotected_tables(connection):
        raise Unusable(
            f"Users could read each other's rows in {unprotected[0]}: it has a policy that this program did not "
            "create. Drop that policy."
        )
    if damaged:
        log.warning("Row-level security was damaged and has been restored: %s", ", ".join(damaged))
    return count


def _check_extensions(connection: psycopg.Connection[Any]) -> None:
    versions = dict(connection.execute(_EXTENSIONS).fetchall())
    for name, needed in MIN_EXTENSION_VERSIONS.items():
        if name not in versions:
            raise Unusable(f"This PostgreSQL lacks the extension {name}. Install it where PostgreSQL runs.")
        if tuple(int(part) for part in versions[name].split(".")[:2]) < needed:
            shown = ".".join(map(str, needed))
            raise Unusable(
                f"The extension {name} is version {versions[name]}, and {shown} or newer is needed. Install it, and "
                f"run: ALTER EXTENSION {name} UPDATE"
            )


def _refusal(connection: psycopg.Connection[Any]) -> Unusable:
    """Why the user of the database URL was refused."""
    match connection.execute(_MEMBERSHIP).fetchone():
        case (user, False):
            return Unusable(
                f"The user {user} of --database-url is not a member of {APP_ROLE}. Run as the tables' owner: "
                f"GRANT {APP_ROLE} TO {user}"
            )
    return Unusable(
        "The tables of this database are missing, old or not protected by row-level security, and the user of "
        "--database-url may not change them. Start a server once with the owner's URL."
    )


def _unprotected_tables(connection: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in connection.execute(UNPROTECTED_TABLES).fetchall()]


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
