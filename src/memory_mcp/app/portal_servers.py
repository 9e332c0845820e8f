"""Portals in files behind several servers on one PostgreSQL: each user's on one server, to which the others forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.app.access import ServerDatabases
from memory_mcp.app.postgres import open_pool
from memory_mcp.clock import new_id, utc_now
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.families.portals.folders import PortalFolders
from memory_mcp.services.access import delete_folder, folder_of
from memory_mcp.services.server_calls import ServerClient
from memory_mcp.settings import Settings

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.portal_servers import PortalServer, PortalServers
    from memory_mcp.families.portals.forwarder import Forwarder

ID_FILE = "server_id"  # in the data directory, whose portals are known by it


def create_forwarder(settings: Settings, own: ServerDatabases, stack: ExitStack) -> Forwarder | None:
    """None: portals are in files that one server alone has, on a ClickHouse server, or refused."""
    if own.cells is None or settings.server_url is None or settings.portals_url is not None:
        return None
    from memory_mcp.families.portals.forwarder import Forwarder  # other servers start faster without it

    directory = own.cells.portal_servers
    client = ServerClient(directory.secret)
    stack.callback(client.close)
    return Forwarder(
        directory,
        own_id(settings.data_dir),
        settings.server_url.rstrip("/") if settings.transport == "http" else None,
        client,
        partial(delete_folder, settings.data_dir),
    )


@contextmanager
def open_portal_servers(settings: Settings) -> Iterator[PortalServers]:
    """The directory of servers with portals. Raises Invalid without --database-url."""
    if not settings.database_url:
        raise Invalid("Without --database-url all portals are in the data directory.", field="database_url")
    from memory_mcp.engines.postgres.portal_servers import PortalServers

    with open_pool(settings, utc_now, ()) as pool:
        yield PortalServers(pool)


def claim_portals(settings: Settings, servers: PortalServers, user: str) -> PortalServer:
    """Let a user's portals be those in this data directory from now on. Raises NotFound if there are none, and Conflict
    if no server of this data directory can be reached by the others."""
    if not PortalFolders(folder_of(settings.data_dir, user)).all():
        raise NotFound(
            "This data directory has no portals of that user. Copy their folder `portals` here first.", field="user"
        )
    id_ = own_id(settings.data_dir)
    found = next((one for one in servers.servers() if one.id == id_), None)
    if found is None:
        raise Conflict(
            "No server of this data directory has been started with --database-url and --server-url, so others cannot "
            "reach it. Start it once, then repeat this."
        )
    servers.move(user, id_)
    return found


def own_id(data_dir: Path) -> str:
    """The id of a data directory among the servers, created at first."""
    path = data_dir / ID_FILE
    if not path.exists():
        with suppress(FileExistsError), Root(data_dir).folder(()) as folder:
            atomic_write.write_new(folder.sibling(ID_FILE), new_id().encode(), mode=0o600)
    return path.read_text(encoding="utf-8").strip()
