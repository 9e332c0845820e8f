"""Deletes what hooks wrote: of a conversation, of a project, or all of it."""

from typing import Any

from memory_mcp.access import Tenants
from memory_mcp.caller import Caller
from memory_mcp.conversations import storage
from memory_mcp.conversations.model import SOURCE, Project
from memory_mcp.errors import NotFound
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import Author, Filter

ONE, ALL = "conversation:", "conversations:"  # references: of one by its id, and of a project by its name or of all
MAX_CONVERSATIONS = 100_000


class Deletion:
    def __init__(self, notes: Notes, files: Tenants) -> None:
        self._notes = notes
        self._files = files

    def delete(self, caller: Caller, ref: str) -> dict[str, Any]:
        """Archive the notes of a reference; its conversations are not captured again. Returns what `restore` needs.
        Raises NotFound if there is no such conversation."""
        chosen, ids = self._chosen(caller, ref)
        if not ids:
            raise NotFound(f"There is nothing of hooks in {ref}.", people_hint="`memory-mcp list conversations` lists.")
        notes = self._notes.series.archive(caller, chosen)
        self._mark(caller, ids, is_deleted=True)
        return {"notes": notes, "conversations": ids}

    def restore(self, caller: Caller, deleted: dict[str, Any]) -> int:
        """Returns how many notes are back."""
        count = self._notes.series.restore(caller, Author("ui"), deleted["notes"])
        self._mark(caller, deleted["conversations"], is_deleted=False)
        return count

    def _chosen(self, caller: Caller, ref: str) -> tuple[Filter, list[str]]:
        """The notes, and the ids of their conversations."""
        with self._files.database(caller.user).read() as tx:
            if ref.startswith(ONE):
                id_ = ref.removeprefix(ONE)
                return Filter(source=SOURCE, session=id_), [id_] if storage.get(tx, id_) else []
            project = ref.removeprefix(ALL) or None
            found = storage.latest(tx, project, MAX_CONVERSATIONS)
        namespace = Project(project).conversations if project else None
        return Filter(namespace, source=SOURCE), [one.id for one in found]

    def _mark(self, caller: Caller, ids: list[str], *, is_deleted: bool) -> None:
        with self._files.database(caller.user).write() as tx:
            storage.mark_deleted(tx, ids, is_deleted=is_deleted)
