"""SQL of the vault. `scope` selects one of two sets of tables of the same shape: vault_* and session_*."""

from memory_mcp.families.vault.storage.expressions import SCOPES, packed, unpacked
from memory_mcp.families.vault.storage.index import has_changes, index_changes, is_indexed, repair_index
from memory_mcp.families.vault.storage.memories import (
    add,
    changed_vectors,
    count,
    equal_to,
    everything,
    get,
    get_with_vector,
    hits,
    ids_with_tags,
    keys_after,
    keys_starting,
    last_written,
    newest,
    page,
    prune,
    upsert,
    versions,
)
from memory_mcp.families.vault.storage.word_index import COLUMNS, MAX_ROWS_FETCHED, VaultWordIndex

__all__ = [
    "COLUMNS",
    "MAX_ROWS_FETCHED",
    "SCOPES",
    "VaultWordIndex",
    "add",
    "changed_vectors",
    "count",
    "equal_to",
    "everything",
    "get",
    "get_with_vector",
    "has_changes",
    "hits",
    "ids_with_tags",
    "index_changes",
    "is_indexed",
    "keys_after",
    "keys_starting",
    "last_written",
    "newest",
    "packed",
    "page",
    "prune",
    "repair_index",
    "unpacked",
    "upsert",
    "versions",
]
