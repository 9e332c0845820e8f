"""Exporting and importing the vault."""

from collections.abc import Iterator
from typing import Any

from memory_mcp.clock import instant, short_stamp
from memory_mcp.families.maintenance import ExportFolder, FamilyMaintenance, ImportFolder, text_of, write_lines
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.families.vault.operations import Vault

FILE = "vault.jsonl"
FIELDS = ("key", "content", "tags", "created_at", "updated_at")


def _export(vault: Vault, target: ExportFolder) -> int:
    def lines() -> Iterator[dict[str, Any]]:
        everything = target.track(vault.everything(target.caller), "vault", vault.count(target.caller))
        for memory, vector in everything:
            fields = {name: getattr(memory, name) for name in FIELDS}
            yield fields | ({"embedding": vector} if vector else {})

    return write_lines(target.path / FILE, lines())


def _import(vault: Vault, source: ImportFolder) -> None:
    """A memory is known by its key."""
    for scope, fields in source.lines(FILE):
        with source.one(scope):
            vector = fields.get("embedding")
            memory = NewMemory(
                "vault",
                text_of(fields, "key"),
                text_of(fields, "content"),
                tuple(map(str, fields.get("tags") or ())),
                tuple(map(float, vector)) if vector else None,
            )
            created, updated = _time(fields, "created_at"), _time(fields, "updated_at")
            is_new = (
                source.is_first("memory", memory.key) and not vault.has(source.caller, memory.key)
                if source.dry_run
                else vault.import_memory(source.caller, memory, created, updated)
            )
            source.result.count("memories", new=is_new)


def _time(fields: dict[str, Any], name: str) -> str:
    """As the vault has times. Raises ValueError for another text, KeyError if there is none."""
    return short_stamp(instant(str(fields[name])))


MAINTENANCE = FamilyMaintenance[Vault](exports={"vault": _export}, imports={"vault": _import})
