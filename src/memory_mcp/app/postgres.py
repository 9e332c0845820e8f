"""The PostgreSQL database of a server with --database-url, which replaces files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from memory_mcp.clock import Clock
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import Invalid, Unusable
from memory_mcp.families.family import Family
from memory_mcp.peers import Peers, SocketPeers
from memory_mcp.settings import Settings
from memory_mcp.system.installation import install_command

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.cells import Cells
    from memory_mcp.engines.postgres.pool import PostgresPool

MAX_VECTOR_LENGTH = 16_000  # of pgvector
HOME_NAME = "home"  # for people: the cell of --database-url


@contextmanager
def open_pool(settings: Settings, clock: Clock, kinds: Iterable[DatabaseKind]) -> Iterator[PostgresPool]:
    """Connect to the database of the settings, with the tables of these kinds."""
    try:
        from memory_mcp.engines.postgres.pool import PostgresPool
    except ImportError as exc:
        raise Unusable(
            f"--database-url needs the PostgreSQL driver. Install it with: {install_command('postgres')}"
        ) from exc
    with closing(PostgresPool(str(settings.database_url), clock=clock)) as pool:
        pool.open([kind.tables for kind in kinds if kind.postgres])
        yield pool


def shared_rows(settings: Settings, pool: PostgresPool, kind: DatabaseKind) -> SharedDatabase:
    """The rows of one of the server's own kinds."""
    from memory_mcp.engines.postgres.tenants import SharedRows

    return SharedRows(pool, kind.tables, durable=settings.durability == "full" and not kind.is_cache)


def create_cells(pool: PostgresPool, kinds: Iterable[DatabaseKind]) -> Cells:
    """The databases with users' rows, of which this is the first."""
    from memory_mcp.engines.postgres.cells import Cells

    return Cells(pool, [kind.tables for kind in kinds if kind.postgres])


def delete_rows(cells: Cells, user: str) -> None:
    """Delete everything that a user has, in each database where it is."""
    from memory_mcp.engines.postgres.cells import HOME
    from memory_mcp.engines.postgres.tenants import write_all_tenants

    for pool in {cells.pool(HOME), cells.find(user).pool}:
        with write_all_tenants(pool) as everything:
            everything.delete(user)


def place_user(settings: Settings, cells: Cells | None, user: str) -> None:
    """Let a new user begin in the cell of the settings."""
    if cells is not None and settings.new_users_cell != HOME_NAME:
        cells.place(user, settings.new_users_cell)


def create_peers(settings: Settings) -> Peers:
    """The other servers on the same database, or on the same data directory."""
    if not settings.database_url:
        return SocketPeers(settings.data_dir / "servers")
    from memory_mcp.engines.postgres.notifications import DatabasePeers

    return DatabasePeers(settings.direct_database_url or settings.database_url)


def check_settings(settings: Settings, families: Mapping[str, Family[Any]], served: Mapping[str, Family[Any]]) -> None:
    """Raises Invalid if a served family has its data in files only, which servers on other machines would not see, or
    if vectors are too long."""
    if settings.embedding_dim > MAX_VECTOR_LENGTH:
        raise Invalid(
            f"PostgreSQL keeps vectors of at most {MAX_VECTOR_LENGTH} numbers. Set MEMORY_MCP_EMBEDDING_DIM to less.",
            field="embedding_dim",
        )
    movable = [name for name, family in families.items() if is_in_postgres(family, settings)]
    left = [name for name in served if name not in movable]
    if "stores" in left:
        raise Invalid(
            "stores are files: with --database-url, name the folder that all servers share with --shared-folder, or "
            f"use --families {','.join(movable)}.",
            field="shared_folder",
        )
    if "portals" in left:
        raise Invalid(
            "portals are files of one server: with --database-url, give the address where other servers reach this one "
            "with --server-url, or a ClickHouse server with --portals-url, or use --families "
            f"{','.join(movable)}.",
            field="server_url",
        )
    if left:
        raise Invalid(
            f"{left[0]} is not in PostgreSQL yet. With --database-url, use --families {','.join(movable)}.",
            field="families",
        )


def is_in_postgres(family: Family[Any], settings: Settings) -> bool:
    """Whether a server with --database-url can serve it."""
    if family.name == "portals" and not (settings.portals_url or settings.server_url):
        return False  # its tables are in files
    kinds = [kind for kind in family.databases if not (kind.is_per_server and settings.shared_folder)]
    return bool(kinds) and all(kind.postgres for kind in kinds)
