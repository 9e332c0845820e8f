"""Editing and deleting notes by their references."""

from typing import Any

from memory_mcp.engines.sqlite.database_kind import is_id
from memory_mcp.errors import Conflict
from memory_mcp.families.family import Call
from memory_mcp.families.notes import resources
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import ARCHIVED, Author, Note, Revision
from memory_mcp.families.notes.operations import Notes
from memory_mcp.families.references import Edits, SaveCopy

PERSON = Author("ui")


def _write(call: Call[Notes], ref: str, was: str, text: str) -> None:
    call.operations.writer.update(call.caller, PERSON, _note(call, ref).id, Revision(content=text), was=was)


def _delete(call: Call[Notes], ref: str, save_copy: SaveCopy | None) -> None:
    """Archive the note, or delete it for good."""
    note = _note(call, ref)
    if save_copy:
        if note.archived:
            raise Conflict("The note is archived already.", people_hint="--for-good deletes it permanently.")
        save_copy({"importance": note.importance, "updated_at": note.updated_at})
    call.operations.writer.delete(call.caller, note.id, soft=save_copy is not None)


def _restore(call: Call[Notes], ref: str, copy: Any) -> None:
    note = _note(call, ref)
    if not note.archived:
        raise Conflict("The note is not archived.")
    kept = copy or {}
    revision = Revision(remove_tags=(ARCHIVED,), importance=kept.get("importance"), updated_at=kept.get("updated_at"))
    call.operations.writer.update(call.caller, PERSON, note.id, revision)


def _note(call: Call[Notes], ref: str) -> Note:
    return resources.read_note(call, note_uri(ref) if is_id(ref) else ref)


EDITS = Edits[Notes](
    is_one=lambda ref: ref.startswith(resources.NOTE), suffix=".md", write=_write, delete=_delete, restore=_restore
)
