"""Conversations as a part of the family notes: exports have their list. They have no tools; messages are notes."""

from functools import partial
from typing import TYPE_CHECKING

from memory_mcp.conversations.operations import Conversations, Families
from memory_mcp.conversations.schema import FILE
from memory_mcp.families.context import Context
from memory_mcp.families.family import Family

if TYPE_CHECKING:
    from memory_mcp.families.maintenance import FamilyMaintenance


def _open(context: Context) -> Conversations:
    operations = {name: one.operations for name, one in context.opened.items()}
    families = Families(operations["notes"], operations["graph"], operations["stores"], operations["recall"])
    notify = partial(context.changes.publish_topic, topic="conversations")
    return Conversations(families, context.user_databases(FILE), context.settings, context.clock, notify)


def _load_maintenance() -> "FamilyMaintenance[Conversations]":
    from memory_mcp.conversations.maintenance import MAINTENANCE  # not needed at the start of a server

    return MAINTENANCE


conversations = Family[Conversations](
    "conversations",
    purpose="",
    main_tools=(),
    errors="tool-result",
    uri_prefixes=(),
    part_of="notes",
    open=_open,
    maintenance=_load_maintenance,
)
