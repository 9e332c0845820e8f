"""Users, keys, sign-ins and limits: who may use a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.app.older_servers import wait_for_older_servers
from memory_mcp.app.postgres import create_cells, create_peers, delete_rows, open_pool, place_user, shared_rows
from memory_mcp.caller import LOCAL_USER
from memory_mcp.changes import KEYS_TOPIC, Change
from memory_mcp.clock import Clock, utc_now
from memory_mcp.engines.chdb.process import EngineRules
from memory_mcp.engines.clickhouse.address import ClickHouseAddress
from memory_mcp.engines.clickhouse.server import ClickHouseServer, check_driver
from memory_mcp.engines.files import data_dir_lock, data_directory
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.transactions import PoolStats, SharedDatabase
from memory_mcp.families.context import open_database
from memory_mcp.services.access import Audit, Keys, Limits, SignIns, Users, delete_folder, folder_of, server_db
from memory_mcp.services.sessions import (
    Client,
    LeasedServers,
    RunningServer,
    ServerAddress,
    ServerRegistry,
    Servers,
    addresses,
    by_server,
    live_db,
)
from memory_mcp.services.sync import hub as hubs
from memory_mcp.settings import Settings

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.cells import Cells
    from memory_mcp.engines.postgres.pool import PostgresPool


@dataclass(frozen=True)
class Access:
    """Who may use a server, without the families."""

    users: Users
    keys: Keys
    sign_ins: SignIns
    limits: Limits
    audit: Audit
    folder_of: Callable[[str], Path]
    delete_data: Callable[[str], None]  # of a user other than the local one
    addresses: Callable[[], list[ServerAddress]]  # where running servers are reached over HTTP
    servers: Callable[[], list[tuple[RunningServer, list[Client]]]]  # the running ones, with their clients
    check_database: Callable[[], object]  # raises Unavailable if the server's own data cannot be read
    pool_stats: Callable[[], PoolStats | None]  # None: without --database-url


@dataclass(frozen=True)
class ServerDatabases:
    """The server's own databases: files, or rows in PostgreSQL."""

    server: SharedDatabase
    live: SharedDatabase
    servers: ServerRegistry
    postgres: PostgresPool | None = None  # connections to the database of --database-url
    cells: Cells | None = None  # the databases with users' rows, of which that is the first


@contextmanager
def open_access(settings: Settings) -> Iterator[Access]:
    """Users and keys alone: a key can be revoked even while a family's file is damaged."""
    with ExitStack() as stack:
        databases = open_server_databases(settings, utc_now, stack)
        peers = stack.enter_context(closing(create_peers(settings)))
        yield create_access(
            settings, databases, utc_now, lambda user: peers.publish(Change(user, (), topics=(KEYS_TOPIC,)))
        )


def open_server_databases(
    settings: Settings, clock: Clock, stack: ExitStack, kinds: Iterable[DatabaseKind] = ()
) -> ServerDatabases:
    """Open the server's own databases, and lock the data directory as in use until the stack is closed. In PostgreSQL
    the tables of these further kinds are created, too."""
    wait_for_older_servers(settings)
    stack.enter_context(use_data_dir(settings.data_dir))
    data_directory.prepare(settings.data_dir)

    own, local = (server_db.FILE, live_db.FILE), Servers(settings.data_dir / "servers")
    if settings.database_url:
        pool = stack.enter_context(open_pool(settings, clock, (*own, *kinds)))
        server, live = (shared_rows(settings, pool, kind) for kind in own)
        cells = stack.enter_context(closing(create_cells(pool, (*own, *kinds))))
        return ServerDatabases(server, live, LeasedServers(live, local), pool, cells)

    def open_file(kind: DatabaseKind) -> Database:
        return stack.enter_context(closing(open_database(settings, clock, kind, settings.data_dir / kind.file)))

    return ServerDatabases(open_file(server_db.FILE), open_file(live_db.FILE), local)


@contextmanager
def use_data_dir(data_dir: Path) -> Iterator[None]:
    """Lock the data directory as in use, after finishing a restore that was interrupted."""
    while True:
        with data_dir_lock.shared(data_dir):
            if not (data_dir / data_dir_lock.RESTORING).exists():
                yield
                return
        from memory_mcp.maintenance import finish_restore  # a server that starts does not need it

        with data_dir_lock.exclusive(data_dir, data_dir_lock.LOCK_TIMEOUT_S):
            finish_restore(data_dir)


def create_access(
    settings: Settings,
    databases: ServerDatabases,
    clock: Clock,
    publish_keys: Callable[[str], None] = lambda user: None,
) -> Access:
    audit, limits, local = Audit(databases.server), Limits(databases.live), Servers(settings.data_dir / "servers")
    users = Users(databases.server, audit, partial(place_user, settings, databases.cells))
    return Access(
        users=users,
        keys=Keys(databases.server, audit, clock, publish_keys),
        sign_ins=SignIns(databases.server, limits, audit, clock),
        limits=limits,
        audit=audit,
        folder_of=partial(folder_of, settings.data_dir),
        delete_data=partial(_delete_data, settings, clock, databases.cells),
        addresses=partial(addresses, databases.live, local),
        servers=partial(by_server, databases.live, local),
        check_database=partial(users.get, LOCAL_USER),
        pool_stats=databases.postgres.stats if databases.postgres else lambda: None,
    )


def _delete_data(settings: Settings, clock: Clock, cells: Cells | None, user: str) -> None:
    path = settings.data_dir / hubs.FILE.file
    if path.exists():
        with closing(open_database(settings, clock, hubs.FILE, path)) as records:
            hubs.delete_user(records, user)
    if cells is not None:
        delete_rows(cells, user)
        cells.portal_servers.request_deletion(user)
    if settings.portals_url:
        check_driver()
        with closing(ClickHouseServer(ClickHouseAddress.parse(settings.portals_url), {}, EngineRules())) as server:
            server.drop_tenant(user)
    for folder in {settings.data_dir, settings.stores_dir}:
        delete_folder(folder, user)
