"""Deletes what hooks wrote: of a conversation, of a project, or all. A deleted conversation is not captured again."""

from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.conversations import storage
from memory_mcp.conversations.model import SOURCE, Conversation, HookProject
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.families.family import Call
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.addresses import CONVERSATION
from memory_mcp.families.notes.model import Author, Filter
from memory_mcp.families.references import Edits, SaveCopy, no_copy

CONVERSATIONS = "conversations:"  # the reference of all conversations of a project, or of all without its name
PERSON = Author("ui")


def is_ref(ref: str) -> bool:
    return ref.startswith((CONVERSATION, CONVERSATIONS))


class Deletion:
    def __init__(self, notes: Notes, files: UserDatabases) -> None:
        self._notes = notes
        self._files = files

    @property
    def edits(self) -> Edits[Any]:
        return Edits(is_one=is_ref, suffix="", write=_refuse, delete=self._delete, restore=self._restore)

    def _delete(self, call: Call[Any], ref: str, save_copy: SaveCopy | None) -> None:
        """Archive the notes of a reference, or delete them for good. Raises NotFound if there are none."""
        caller = call.caller
        chosen, ids = self._chosen(caller, ref, include_deleted=save_copy is None)
        if save_copy is None:
            with self._files.database(caller.user).write() as tx:
                storage.purge(tx, ids)
            self._notes.series.delete(caller, chosen)
            return
        self._mark(caller, ids, is_deleted=True)  # first, so that a capture that runs now ends
        try:
            save_copy({"notes": self._notes.series.importances(caller, chosen), "conversations": ids})
        except BaseException:
            self._mark(caller, ids, is_deleted=False)
            raise
        self._notes.series.archive(caller, chosen)

    def _restore(self, call: Call[Any], ref: str, copy: Any) -> None:
        if copy is None:
            raise no_copy(ref)
        self._notes.series.restore(call.caller, PERSON, copy["notes"])
        self._mark(call.caller, copy["conversations"], is_deleted=False)

    def _chosen(self, caller: Caller, ref: str, *, include_deleted: bool) -> tuple[Filter, list[str]]:
        """The notes of a reference, and the ids of their conversations."""
        if ref.startswith(CONVERSATION):
            id_ = ref.removeprefix(CONVERSATION)
            return Filter(source=SOURCE, session=id_), [self._existing(caller, id_, include_deleted=include_deleted)]
        project = ref.removeprefix(CONVERSATIONS) or None
        with self._files.database(caller.user).read() as tx:
            ids = storage.matching(tx, project, include_deleted=include_deleted)
        if not ids:
            raise _missing(ref)
        return Filter(HookProject(project).conversations if project else None, source=SOURCE), ids

    def _existing(self, caller: Caller, id_: str, *, include_deleted: bool) -> str:
        with self._files.database(caller.user).read() as tx:
            found = storage.get(tx, id_)
        if found is None:
            raise _missing(f"{CONVERSATION}{id_}")
        if found.is_deleted and not include_deleted:
            raise Conflict("The conversation is deleted already.", people_hint="--for-good deletes it permanently.")
        return id_

    def _mark(self, caller: Caller, ids: list[str], *, is_deleted: bool) -> None:
        with self._files.database(caller.user).write() as tx:
            storage.mark_deleted(tx, ids, is_deleted=is_deleted)


def delete_messages(notes: Notes, caller: Caller, conversation: Conversation) -> None:
    """Delete what was stored of a conversation although the user deleted it: for good, if the user did so."""
    chosen = Filter(source=SOURCE, session=conversation.id)
    if conversation.is_purged:
        notes.series.delete(caller, chosen)
    else:
        notes.series.archive(caller, chosen)


def _missing(ref: str) -> NotFound:
    return NotFound(
        f"Hooks have kept nothing under {ref}.", people_hint="`memory-mcp list conversations` shows what there is."
    )


def _refuse(call: Call[Any], ref: str, was: str, text: str) -> None:
    raise Invalid("A conversation is kept word for word. Edit one of its messages.", field="ref")
