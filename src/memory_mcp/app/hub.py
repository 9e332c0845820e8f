"""A hub: the server that the nodes of its users sync with."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from memory_mcp.app.access import Access, ServerDatabases, create_access, open_server_databases
from memory_mcp.clock import Clock, utc_now
from memory_mcp.engines.transactions import UserDatabase
from memory_mcp.families.context import open_database
from memory_mcp.services.sync import hub as hubs
from memory_mcp.settings import Settings


@dataclass(frozen=True)
class HubApp:
    settings: Settings
    access: Access
    hub: hubs.Hub


@contextmanager
def open_hub(settings: Settings, *, clock: Clock = utc_now) -> Iterator[HubApp]:
    """A hub's users, keys and records. Raises AppError that says what to correct."""
    with ExitStack() as stack:
        databases = open_server_databases(settings, clock, stack, [hubs.FILE])
        access = create_access(settings, databases, clock)
        records_of = _open_records(settings, clock, databases, stack)
        yield HubApp(settings, access, hubs.Hub(records_of, access.limits))


def _open_records(
    settings: Settings, clock: Clock, databases: ServerDatabases, stack: ExitStack
) -> Callable[[str], UserDatabase]:
    if databases.postgres is not None:
        from memory_mcp.engines.postgres.tenants import PostgresTenants

        return PostgresTenants(
            databases.postgres, hubs.FILE.tables, durable=settings.durability == "full", cells=databases.cells
        ).database
    path = settings.data_dir / hubs.FILE.file
    records = stack.enter_context(closing(open_database(settings, clock, hubs.FILE, path)))
    return lambda user: records
