"""PostgreSQL instead of files, for a server that has a database URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from memory_mcp.clock import Clock
from memory_mcp.errors import Invalid, Unusable
from memory_mcp.families.family import Family
from memory_mcp.peers import Peers, SocketPeers
from memory_mcp.settings import Settings

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.cluster import Cluster


@contextmanager
def open_cluster(settings: Settings, clock: Clock, families: Iterable[Family[Any]]) -> Iterator[Cluster]:
    """Connect to the database of the settings, with the tables of these families."""
    try:
        from memory_mcp.engines.postgres.cluster import Cluster
    except ImportError as exc:
        raise Unusable(
            "--database-url needs the PostgreSQL driver. Install it with: pip install 'five-memories[postgres]'"
        ) from exc
    with closing(Cluster(str(settings.database_url), clock=clock)) as cluster:
        cluster.open([kind.tables for family in families for kind in family.databases if kind.postgres])
        yield cluster


def create_peers(settings: Settings) -> Peers:
    """The other servers on the same database, or on the same data directory."""
    if not settings.database_url:
        return SocketPeers(settings.data_dir / "servers")
    from memory_mcp.engines.postgres.notifications import DatabasePeers

    return DatabasePeers(settings.database_url)


def check_families(families: Mapping[str, Family[Any]], served: Mapping[str, Family[Any]]) -> None:
    """Raises Invalid if a served family keeps data in files only: servers on other machines would not see them."""
    possible = [name for name, family in families.items() if _is_possible(family)]
    if left := [name for name in served if name not in possible]:
        raise Invalid(
            f"{left[0]} is not in PostgreSQL yet. With --database-url, use --families {','.join(possible)}.",
            field="families",
        )


def _is_possible(family: Family[Any]) -> bool:
    return family.name == "recall" or (bool(family.databases) and all(kind.postgres for kind in family.databases))
