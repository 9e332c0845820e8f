"""The memories of the vault in the journal of writes. An item is a key."""

import base64
from collections.abc import Collection, Sequence
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.family import decoded
from memory_mcp.families.vault import storage
from memory_mcp.families.vault.model import VAULT_URI, Memory, NewMemory, PruneFilter, uri_of
from memory_mcp.families.writes import ItemShown, LastWriters
from memory_mcp.services.write_journal import Action, ItemWrite, WriteRecord, WriteTable, digest

PREFIX = f"{VAULT_URI}/"
WRITES = WriteTable("vault_writes")

Stored = tuple[Memory, bytes | None]  # with its vector


def memory_write(before: Stored | None, memory: NewMemory) -> ItemWrite:
    """A memory that was stored."""
    action: Action = "updated" if before else "created"
    return ItemWrite(memory.key, action, copy_of(before) if before else None, digest(memory.content, *memory.tags))


def memory_deletion(before: Stored, *, for_good: bool = False) -> ItemWrite:
    return ItemWrite(before[0].key, "deleted", None if for_good else copy_of(before))


def copy_of(stored: Stored) -> dict[str, Any]:
    memory, vector = stored
    return {
        "content": memory.content,
        "tags": memory.tags,
        "embedding": base64.b64encode(vector).decode() if vector else None,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
    }


class VaultItems(LastWriters):
    table = WRITES

    def shown(self, tx: Read, items: Sequence[str]) -> dict[str, ItemShown]:
        return {key: ItemShown(uri_of(key), key) for key in items}

    def items_of(self, tx: Read, refs: Sequence[str]) -> dict[str, list[str]]:
        return {ref: [decoded(ref.removeprefix(PREFIX))] for ref in refs if ref.startswith(PREFIX)}

    def digests(self, tx: Read, items: Sequence[str]) -> dict[str, str]:
        found = ((key, storage.get(tx, key)) for key in items)
        return {key: digest(memory.content, *memory.tags) for key, memory in found if memory}

    def has_before(self, tx: Read, record: WriteRecord) -> bool:
        return WRITES.has_copy(tx, record.number)

    def before(self, tx: Read, record: WriteRecord) -> Any:
        return WRITES.before(tx, record.number)

    def refusal(self, tx: Read, item: str, undone: Collection[str], *, deletes: bool) -> str | None:
        return None

    def restore(self, tx: Write, caller: Caller, item: str, before: Any) -> ItemWrite:
        now = storage.get_with_vector(tx, item)
        if now:
            storage.prune(tx, "vault", "", PruneFilter("vault", item))
        if before is None:
            return memory_deletion(now) if now else ItemWrite(item, "deleted")
        vector = before["embedding"]
        unpacked = storage.unpacked(base64.b64decode(vector)) if vector else None
        memory = NewMemory("vault", item, before["content"], tuple(before["tags"]), unpacked)
        storage.add(tx, memory, before["created_at"], before["updated_at"])
        return memory_write(now, memory)
