"""References of the vault: memory://vault/KEY, memory://vault and memory://session/ID."""

import json
from typing import Any

from memory_mcp.families.family import Call, decoded
from memory_mcp.families.references import NamedByReference, Opened, References, TakesReference
from memory_mcp.families.vault import resources
from memory_mcp.families.vault.edits import EDITS
from memory_mcp.families.vault.model import VAULT_URI, uri_of
from memory_mcp.families.vault.operations import Vault

PREFIXES = (VAULT_URI, "memory://session/")


def _named_key(text: str) -> NamedByReference | None:
    start = f"{VAULT_URI}/"
    return NamedByReference(decoded(text.removeprefix(start).partition("?")[0])) if text.startswith(start) else None


KEY = TakesReference(_named_key)
NEW_KEY = TakesReference(_named_key, may_be_new=True)


def _open(call: Call[Vault], ref: str) -> Opened:
    document = resources.read(call, ref)
    found = json.loads(document.text)
    if isinstance(found, dict):
        return Opened(uri_of(found["key"]), found["key"], found["content"], found, *_times(found))
    return Opened(ref, "vault" if ref.startswith(VAULT_URI) else "session", _text(found, document.meta), found)


def _times(memory: dict[str, Any]) -> tuple[str, str]:
    return memory["created_at"], memory["updated_at"]


def _text(memories: list[dict[str, Any]], meta: Any) -> str:
    parts = [f"## {memory['key']}\n\n{memory['content']}" for memory in memories]
    if following := meta.get("memory-mcp/next"):
        parts.append(f"There is more: open {following}")
    return "\n\n".join(parts) or "There are no memories here."


REFERENCES = References[Vault]("memory://vault/KEY", PREFIXES, _open, edits=EDITS)
