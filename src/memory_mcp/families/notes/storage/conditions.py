"""SQL conditions for the notes that a filter describes."""

import json
from typing import Any

from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.model import Filter, NoteState, folded, tag_key
from memory_mcp.families.notes.storage.notes import LIVE

CONTAINS = "instr(lower(title || ' ' || content), :words) > 0"
_ASCII_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
_STATES: dict[NoteState, str] = {
    "superseded": "superseded_by IS NOT NULL",
    "expired": "expires_at <= :now",
    "unembedded": "notes.seq NOT IN (SELECT note_seq FROM note_vectors WHERE part = 0)",
}


def filter_condition(chosen: Filter, words: str = "", *, is_archived: bool = False) -> str:
    """The SQL condition of a filter, for live notes or for archived ones."""
    state = "archived = 1" if is_archived else "archived = 0" if chosen.state == "expired" else LIVE
    return " AND ".join([state, *conditions_of(chosen), *([CONTAINS] if words else [])])


def conditions_of(chosen: Filter) -> list[str]:
    conditions = []
    if chosen.namespace is not None:
        conditions.append("namespace = :namespace")
    if chosen.within is not None:
        conditions.append("namespace = :within")
    if chosen.folder is not None:
        conditions.append("folder = :folder")
    if chosen.min_importance > 0:
        conditions.append("importance >= :min_importance")
    if chosen.source is not None:
        conditions.append("source = :source")
    if chosen.excluded_source is not None:
        conditions.append("source <> :excluded_source")
    if chosen.is_current:
        conditions.append("superseded_by IS NULL")
    if chosen.session is not None:
        conditions.append("session_id = :session")
    if chosen.client is not None:
        conditions.append("client = :client")
    if chosen.created.after is not None:
        conditions.append("created_at >= :created_after")
    if chosen.created.before is not None:
        conditions.append("created_at < :created_before")
    if chosen.title is not None:
        conditions.append("title_key = :title_key")
    if chosen.state is not None:
        conditions.append(_STATES[chosen.state])
    if chosen.ids:
        conditions.append("notes.id IN (SELECT value FROM json_each(:ids))")
    for number in range(len(chosen.tags)):
        conditions.append(f"notes.seq IN (SELECT note_seq FROM note_tags WHERE tag_key = :tag{number})")
    return conditions


def filter_values(tx: Read, chosen: Filter, words: str = "") -> dict[str, Any]:
    return {
        "words": lower(words),
        "now": tx.precise_stamp,
        "namespace": chosen.namespace,
        "within": chosen.within,
        "folder": chosen.folder,
        "min_importance": chosen.min_importance,
        "source": chosen.source,
        "excluded_source": chosen.excluded_source,
        "session": chosen.session,
        "client": chosen.client,
        "created_after": chosen.created.after,
        "created_before": chosen.created.before,
        "title_key": folded(chosen.title) if chosen.title is not None else None,
        "ids": json.dumps(chosen.ids),
        **{f"tag{number}": tag_key(tag) for number, tag in enumerate(chosen.tags)},
    }


def lower(text: str) -> str:
    """As lower() in SQL: of ASCII letters alone."""
    return text.translate(_ASCII_LOWER)
