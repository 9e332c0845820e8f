"""Undoing a whole import: what it created is removed, what it updated gets its former text. Memories that were changed
since stay as they are."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.errors import Conflict, NotFound
from memory_mcp.families.graph import Graph
from memory_mcp.families.graph.model import Facts, GraphAddition, NamedRelation, NewEntity
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import IMPORTED_FROM, Author, Note, Revision
from memory_mcp.families.stores import Stores
from memory_mcp.importers.history import ImportRecord

AUTHOR = Author("import")


@dataclass
class Undone:
    removed: int = 0
    kept: int = 0  # changed since the import


# What an import adds to its log


def created_notes(notes: list[Note]) -> dict[str, Any]:
    return {"created": {note.id: note.version for note in notes}}


def updated_note(before: Note, after: Note) -> dict[str, Any]:
    former = {
        "content": before.content,
        "title": before.title,
        "folder": before.folder,
        "tags": before.tags,
        "expires_at": before.expires_at or "",
        "updated_at": before.updated_at,
        "metadata_patch": {IMPORTED_FROM: before.metadata.get(IMPORTED_FROM)},
    }
    return {"updated": {"id": after.id, "version": after.version, "former": former}}


def written_file(path: str, content: bytes) -> dict[str, Any]:
    return {"file": {"path": path, "digest": _digest(content)}}


def added_graph(addition: GraphAddition) -> dict[str, Any]:
    return {"graph": asdict(addition)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class ImportUndo:
    def __init__(self, notes: Notes, stores: Stores, graph: Graph) -> None:
        self._notes = notes
        self._stores = stores
        self._graph = graph
        self._steps: dict[str, Callable[[Caller, str, Any, Undone], None]] = {
            "created": self._delete_notes,
            "updated": self._revert_note,
            "file": self._remove_file,
            "graph": self._remove_from_graph,
        }

    def undo_batch(self, caller: Caller, record: ImportRecord, batch: dict[str, Any], undone: Undone) -> None:
        for kind, written in batch.items():
            self._steps[kind](caller, record.into, written, undone)

    def _delete_notes(self, caller: Caller, _: str, versions: dict[str, int], undone: Undone) -> None:
        deleted, kept = self._notes.writer.delete_unchanged(caller, versions)
        undone.removed += deleted
        undone.kept += kept

    def _revert_note(self, caller: Caller, _: str, written: dict[str, Any], undone: Undone) -> None:
        try:
            if self._notes.reader.read(caller, written["id"]).version != written["version"]:
                undone.kept += 1
                return
            former = written["former"]
            revision = Revision(**{**former, "tags": tuple(former["tags"])})
            self._notes.writer.update(caller, AUTHOR, written["id"], revision)
            undone.removed += 1
        except NotFound:  # deleted since
            return

    def _remove_file(self, caller: Caller, store: str, written: dict[str, Any], undone: Undone) -> None:
        def check(content: bytes, _: int) -> None:
            if _digest(content) != written["digest"]:
                raise Conflict("It was changed since.")

        try:
            self._stores.remove(caller, store, written["path"], check)
            undone.removed += 1
        except NotFound:  # deleted since
            return
        except Conflict:
            undone.kept += 1

    def _remove_from_graph(self, caller: Caller, project: str, written: dict[str, Any], undone: Undone) -> None:
        addition = GraphAddition(
            [NewEntity(one["name"], one["entity_type"], tuple(one["observations"])) for one in written["entities"]],
            [Facts(one["entity_name"], tuple(one["contents"])) for one in written["observations"]],
            [NamedRelation(**one) for one in written["relations"]],
        )
        try:
            removed, kept = self._graph.remove_addition(caller, project, addition)
        except NotFound:  # the project was deleted since
            return
        undone.removed += removed
        undone.kept += kept
