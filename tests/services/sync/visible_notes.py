"""Everything that a user sees of the notes in a file."""

import json
from collections.abc import Sequence
from typing import Any

from memory_mcp.engines.sqlite.transactions import SqliteRead

Note = dict[str, Any]

_VISIBLE = """
    SELECT note.id, note.title, note.has_own_title, note.content, note.folder, note.namespace, note.importance,
        note.metadata, note.archived, note.expires_at, note.last_referenced_at, note.created_at, note.updated_at,
        newer.id
    FROM notes AS note LEFT JOIN notes AS newer ON newer.seq = note.superseded_by
"""
_VISIBLE_FIELDS = (
    *("id", "title", "own_title", "content", "folder", "namespace", "importance", "metadata", "archived"),
    *("expires_at", "last_referenced_at", "created_at", "updated_at", "superseded_by"),
)
_LINKS = """
    SELECT source.id, target.id, kind FROM note_links
    JOIN notes AS source ON source.seq = source_seq JOIN notes AS target ON target.seq = target_seq
"""
_WIKILINKS = """
    SELECT source.id, link.title_key, target.id FROM note_wikilinks AS link
    JOIN notes AS source ON source.seq = source_seq LEFT JOIN notes AS target ON target.seq = target_seq
"""


def _visible_fields(row: Sequence[Any]) -> Note:
    fields = dict(zip(_VISIBLE_FIELDS, row, strict=True))
    del fields["id"]
    own = {name: bool(fields[name]) for name in ("own_title", "archived")}
    metadata = json.loads(fields["metadata"])
    return {**fields, **own, "metadata": metadata, "tags": set(), "links": set(), "wikilinks": {}}


def read_notes(tx: SqliteRead) -> dict[str, Note]:
    """By id."""
    found = {row[0]: _visible_fields(row) for row in tx.all(_VISIBLE)}
    for id_, tag, origin in tx.all("SELECT id, tag, origin FROM note_tags JOIN notes ON seq = note_seq"):
        found[id_]["tags"].add((tag, origin))
    for id_, target, kind in tx.all(_LINKS):
        found[id_]["links"].add((kind, target))
    for id_, key, target in tx.all(_WIKILINKS):
        found[id_]["wikilinks"][key] = target
    return found


def incoming_links(every: dict[str, Note], id_: str) -> set[tuple[str, str]]:
    return {(kind, source) for source, note in every.items() for kind, target in note["links"] if target == id_}
