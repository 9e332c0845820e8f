"""The stores family: how to open it, and its functions for recall, Home and references."""

from functools import partial
from typing import TYPE_CHECKING

from memory_mcp.caller import Caller
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.sqlite.database_kind import LOCKS
from memory_mcp.families.context import Context
from memory_mcp.families.family import Family
from memory_mcp.families.stores import references
from memory_mcp.families.stores.operations import Stores
from memory_mcp.families.stores.schema import STORE_WRITES, STORES_CACHE
from memory_mcp.families.stores.store_access import StoreAccess
from memory_mcp.services.access import folder_of
from memory_mcp.settings import default_data_dir

if TYPE_CHECKING:
    from memory_mcp.families.maintenance import FamilyMaintenance


def _open(context: Context) -> Stores:
    folder = context.settings.stores_dir
    is_shared = folder != context.settings.data_dir
    if is_shared:
        data_directory.make_private_folder(folder)
        data_directory.prepare(folder)
    access = StoreAccess(
        context.tenants(STORES_CACHE),
        partial(folder_of, folder),
        durable=context.settings.durability == "full",
        locks=folder / LOCKS if is_shared else None,  # NFS locks files, and no folders
    )
    return Stores(
        access,
        context.user_databases(STORE_WRITES),
        context.clock,
        data_dirs=[default_data_dir(program) for program in ("memory-mcp", "memory-mcp-hub")],
    )


def _counts(stores: Stores, caller: Caller) -> dict[str, int]:
    sizes = list(stores.counts(caller))
    return {"stores": len(sizes), "memories": sum(sizes)}


def _load_maintenance() -> "FamilyMaintenance[Stores]":
    from memory_mcp.families.stores.maintenance import MAINTENANCE  # not needed at the start of a server

    return MAINTENANCE


stores = Family[Stores](
    name="stores",
    purpose="markdown files that a person reads, edits and commits, by store and path",
    main_tools=("add_memory", "get_memory", "update_memory", "list_memories", "cortex_get_recent_memories"),
    errors="json-rpc",
    uri_prefixes=(),
    open=_open,
    maintenance=_load_maintenance,
    databases=(STORES_CACHE, STORE_WRITES),
    counts=_counts,
    last_writes=Stores.last_written,
    references=references.REFERENCES,
    journals=lambda stores, caller: stores.journal.journals(caller),
    sizes=Stores.sizes,
    groups=Stores.groups,
)
