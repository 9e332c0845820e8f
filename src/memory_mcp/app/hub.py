"""A hub: the server that the nodes of its users sync with."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from memory_mcp.app.access import Access, create_access, open_server_databases
from memory_mcp.clock import Clock, utc_now
from memory_mcp.families.context import open_database
from memory_mcp.settings import Settings
from memory_mcp.sync import hub as hubs


@dataclass(frozen=True)
class HubApp:
    settings: Settings
    access: Access
    hub: hubs.Hub


@contextmanager
def open_hub(settings: Settings, *, clock: Clock = utc_now) -> Iterator[HubApp]:
    """A hub's users, keys and records. Raises AppError that says what to correct."""
    with ExitStack() as stack:
        access = create_access(settings, open_server_databases(settings, clock, stack), clock)
        path = settings.data_dir / hubs.FILE.file
        records = stack.enter_context(closing(open_database(settings, clock, hubs.FILE, path)))
        yield HubApp(settings, access, hubs.Hub(records, access.limits))
