"""Editing and deleting memories of the vault by their references."""

from typing import Any

from memory_mcp.errors import Conflict
from memory_mcp.families.family import Call, decoded
from memory_mcp.families.references import Edits, SaveCopy, no_copy
from memory_mcp.families.vault.model import VAULT_URI, NewMemory
from memory_mcp.families.vault.operations import Vault

PREFIX = f"{VAULT_URI}/"


def _write(call: Call[Vault], ref: str, was: str, text: str) -> None:
    call.operations.revise(call.caller, call.session, _key(ref), was, text)


def _delete(call: Call[Vault], ref: str, save_copy: SaveCopy | None) -> None:
    call.operations.delete(call.caller, call.session, _key(ref), save_copy)


def _restore(call: Call[Vault], ref: str, copy: Any) -> None:
    if copy is None:
        raise no_copy(ref)
    vector = copy["embedding"]
    memory = NewMemory(
        "vault", copy["key"], copy["content"], tuple(copy["tags"]), None if vector is None else tuple(vector)
    )
    if not call.operations.import_memory(call.caller, memory, copy["created_at"], copy["updated_at"]):
        raise Conflict(f"The vault has another memory under the key {copy['key']!r} by now.")


def _key(ref: str) -> str:
    return decoded(ref.removeprefix(PREFIX))


EDITS = Edits[Vault](
    is_one=lambda ref: ref.startswith(PREFIX), suffix=".md", write=_write, delete=_delete, restore=_restore
)
