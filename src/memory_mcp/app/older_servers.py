"""Servers of an older version on the same data directory: no file is migrated while one of them may write to it."""

import logging
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory_mcp import __version__
from memory_mcp.conversations import schema as conversations
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.errors import Unavailable
from memory_mcp.families import registry
from memory_mcp.families.family import Family
from memory_mcp.services.access import server_db
from memory_mcp.services.sessions import RunningServer, Servers, live_db
from memory_mcp.services.sync import hub as hubs
from memory_mcp.settings import Settings

log = logging.getLogger(__name__)

HAND_OVER_TIMEOUT_S = 10.0  # a server ends within five seconds after its signal
POLL_INTERVAL_S = 0.05
USER_VERSION = slice(60, 64)  # of the header of an SQLite file: the number of its last migration


def wait_for_older_servers(settings: Settings) -> None:
    """Before a migration: shared servers of an older version hand their clients over and end. Raises Unavailable while
    other servers of an older version run."""
    servers = Servers(settings.data_dir / "servers")
    older = [server for server in servers.running() if server.version != __version__]
    if not older or not _needs_migration(settings):
        return
    for server in older:
        if server.kind == "shared":
            log.info("The server of version %s hands its clients over: the data has to be migrated.", server.version)
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + HAND_OVER_TIMEOUT_S
    while remaining := [server for server in older if servers.is_running(server.id)]:
        if time.monotonic() > deadline or all(server.kind != "shared" for server in remaining):
            raise Unavailable(_still_running(remaining))
        time.sleep(POLL_INTERVAL_S)


def _still_running(servers: Iterable[RunningServer]) -> str:
    named = ", ".join(f"process {server.pid} of version {server.version}" for server in servers)
    return (
        f"This version has to migrate the data, and an older one still uses it ({named}). Nothing was changed. Close "
        "the clients that started it, or end it, then try again."
    )


def _needs_migration(settings: Settings) -> bool:
    from memory_mcp.maintenance import Layout  # only an upgrade beside a running server needs it

    layout = Layout(settings.data_dir, settings.vault_path, database_kinds(registry.FAMILIES.values()))
    files = (file for tenant in layout.tenants() for file in layout.databases(tenant))
    return any(0 < _version(file.path) < file.kind.schema.version for file in files)


def _version(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(USER_VERSION.stop)[USER_VERSION], "big")


def database_kinds(families: Iterable[Family[Any]]) -> tuple[DatabaseKind, ...]:
    """Every kind of SQLite file in a data directory: the server's own, a hub's, and those that families declare."""
    own = (server_db.FILE, live_db.FILE, hubs.FILE, conversations.FILE)
    return (*own, *(kind for family in families for kind in family.databases))
