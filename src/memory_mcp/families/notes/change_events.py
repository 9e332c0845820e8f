"""Publishes which resources change when notes do."""

from collections.abc import Iterable, Sequence

from memory_mcp.changes import Changes
from memory_mcp.families.notes.addresses import RECENT_URI, namespace_uri, note_uri, tag_uri
from memory_mcp.families.notes.model import Note
from memory_mcp.families.notes.storage import notes
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.services.search_index import IndexFiles

VECTORS = "vectors"  # the topic of pages that show how many notes have their vectors


class NoteEvents:
    def __init__(self, changes: Changes, files: IndexFiles) -> None:
        self._changes = changes
        self._files = files

    def publish(self, user: str, changed: Sequence[Note], *, linked: Iterable[str], list_changed: bool) -> None:
        """Publish changed notes, and notes (by id) whose links changed, each in its namespace."""
        uris: dict[str, list[str]] = {}
        for note in changed:
            own = [RECENT_URI, note_uri(note.id), namespace_uri(note.namespace), *map(tag_uri, note.tags)]
            uris.setdefault(note.namespace, []).extend(own)
        elsewhere = [RECENT_URI]  # links from other namespaces, which confined callers cannot see
        for id_, namespace in self._namespaces_of(user, linked).items():
            uris.get(namespace, elsewhere).append(note_uri(id_))
        for namespace, own in uris.items():
            self._changes.publish(user, own, list_changed=list_changed, namespace=namespace)
        if not uris or len(elsewhere) > 1:
            self._changes.publish(user, elsewhere, list_changed=list_changed)

    def publish_links(self, user: str, *ends: StoredNote) -> None:
        """The links between these notes changed."""
        namespaces = {end.note.namespace for end in ends}
        shared = namespaces.pop() if len(namespaces) == 1 else None
        self._changes.publish(user, [note_uri(end.note.id) for end in ends], list_changed=False, namespace=shared)

    def publish_reference(self, user: str, namespace: str | None) -> None:
        """A note was read."""
        self._changes.publish(user, [RECENT_URI], list_changed=False, namespace=namespace)

    def publish_vectors(self, user: str) -> None:
        """The number of notes that wait for their vectors changed."""
        self._changes.publish_topic(user, VECTORS)

    def _namespaces_of(self, user: str, ids: Iterable[str]) -> dict[str, str]:
        wanted = list(ids)
        if not wanted:
            return {}
        with self._files.of(user).db.read() as tx:
            return notes.namespaces_of(tx, wanted)
