"""The journal of writes: who wrote what, and how it was before. Each database of a family has its own, written in
the transaction of the write."""

from memory_mcp.services.write_journal.model import (
    Action,
    ItemUndo,
    ItemWrite,
    WriteGroup,
    WriteQuery,
    Writer,
    WriteRecord,
    digest,
)
from memory_mcp.services.write_journal.storage import WriteTable

__all__ = [
    "Action",
    "ItemUndo",
    "ItemWrite",
    "WriteGroup",
    "WriteQuery",
    "WriteRecord",
    "WriteTable",
    "Writer",
    "digest",
]
