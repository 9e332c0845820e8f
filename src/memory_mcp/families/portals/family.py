"""The portals family: how to open it, and its functions for recall and Home."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_mcp.caller import Caller
from memory_mcp.engines.chdb import sandbox
from memory_mcp.families.context import Context
from memory_mcp.families.family import Family, LastWrite
from memory_mcp.families.portals import references, resources, search_texts
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.composition import create_portals
from memory_mcp.families.portals.model import VIEWER
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.schema import PORTAL_WRITES
from memory_mcp.families.texts import Purge

if TYPE_CHECKING:
    from memory_mcp.families.maintenance import FamilyMaintenance

log = logging.getLogger(__name__)


def _open(context: Context) -> Portals:
    return context.close_later(
        create_portals(
            context.settings,
            context.folder_of,
            context.changes,
            context.clock,
            lock=context.lock,
            journals=context.user_databases(PORTAL_WRITES),
        )
    )


def prepare(portals: Portals, users: Sequence[str]) -> None:
    if lacks := sandbox.missing():
        log.warning(
            "This system lacks %s. The engines of portals are confined by their SQL policy and role alone; "
            "portal_sandbox = required refuses to run them so.",
            " and ".join(lacks),
        )
    portals.remove_leftovers(users)


def delete_expired(portals: Portals) -> None:
    portals.exports.delete_expired_exports()
    portals.rows.delete_expired_copies()


def counts(portals: Portals, caller: Caller) -> dict[str, int]:
    described = [portals.described(caller, folder.address)[1] for folder in portals.all(caller)]
    return {
        "portals": len(described),
        "tables": sum(len(tables) for tables in described),
        "rows": sum(table.rows for tables in described for table in tables),
    }


def _last_writes(portals: Portals, caller: Caller, limit: int) -> list[LastWrite]:
    return portals.last_written(caller)


def _on_purge(portals: Portals, purge: Purge) -> None:
    def purge_copies(caller: Caller, address: Address) -> None:
        purge(caller, search_texts.group_name(address))

    portals.on_delete.append(purge_copies)


def _load_maintenance() -> "FamilyMaintenance[Portals]":
    from memory_mcp.families.portals.maintenance import MAINTENANCE  # not needed at the start of a server

    return MAINTENANCE


portals = Family[Portals](
    name="portals",
    purpose="tables and SQL, in portals such as mem://namespace/portal",
    main_tools=("portal_write", "portal_query", "portal_import", "portal_export"),
    errors="tool-result",
    uri_prefixes=("mem://", VIEWER),
    open=_open,
    maintenance=_load_maintenance,
    databases=(PORTAL_WRITES,),
    is_confinable=True,
    templates=resources.TEMPLATES,
    list_resources=resources.list_page,
    read_resource=resources.read,
    subscription_uri=resources.subscription_uri,
    complete=resources.complete,
    prepare=prepare,
    housekeeping=delete_expired,
    counts=counts,
    last_writes=_last_writes,
    references=references.REFERENCES,
    journals=lambda portals, caller: portals.journals(caller),
    sizes=references.sizes,
    groups=search_texts.groups,
    on_purge=_on_purge,
)
