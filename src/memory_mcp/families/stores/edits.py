"""Editing and deleting memories of stores by their references."""

import base64
from typing import Any

from memory_mcp.families.family import Call
from memory_mcp.families.references import Edits, SaveCopy, no_copy
from memory_mcp.families.stores.model import FileChange, split_ref
from memory_mcp.families.stores.operations import Stores


def _write(call: Call[Stores], ref: str, was: str, text: str) -> None:
    store, path = split_ref(ref)
    call.operations.update(call.caller, store, path, FileChange(content=text), was=was)


def _delete(call: Call[Stores], ref: str, save_copy: SaveCopy | None) -> None:
    store, path = split_ref(ref)

    def save_file(content: bytes, changed_ns: int) -> None:
        if save_copy:
            save_copy({"content": base64.b64encode(content).decode(), "changed_ns": changed_ns})

    call.operations.remove(call.caller, store, path, save_file, for_good=save_copy is None)


def _restore(call: Call[Stores], ref: str, copy: Any) -> None:
    if copy is None:
        raise no_copy(ref)
    content = base64.b64decode(copy["content"])
    call.operations.restore_file(call.caller, *split_ref(ref), content, copy["changed_ns"], any_name=True)


EDITS = Edits[Stores](
    is_one=lambda ref: bool(split_ref(ref)[1]), suffix=".md", write=_write, delete=_delete, restore=_restore
)
