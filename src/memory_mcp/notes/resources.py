"""memory://note/{id}, memory://namespace/{ns}, memory://tag/{tag} and memory://recent."""

import json
from dataclasses import asdict
from typing import Any

from memory_mcp.errors import NotFound
from memory_mcp.families import Call, Document, Listed, Page, Template, bad_cursor, decoded
from memory_mcp.notes.model import ARCHIVED, CreatedCursor, Filter, Note, Recent, tag_key
from memory_mcp.notes.operations import RECENT_URI, namespace_uri, note_uri, tag_uri

PAGE = 100  # entries on one page of resources/list
FIRST = 100  # notes in a reading of a namespace or a tag
RECENT = 20
COMPLETIONS = 100 + 1  # one more than the protocol shows, so that it can say there are more

NOTE, NAMESPACE, TAG = "memory://note/", "memory://namespace/", "memory://tag/"
PREFIXES = (NOTE, NAMESPACE, TAG, RECENT_URI)
TEMPLATES = (
    Template(f"{NAMESPACE}{{ns}}", "namespace", f"The notes of a namespace (first {FIRST})."),
    Template(f"{NOTE}{{id}}", "note", "One note with its body, metadata and links."),
    Template(f"{TAG}{{tag}}", "tag", f"The notes with a tag (first {FIRST})."),
)


def list_page(call: Call, position: str | None) -> Page:
    """The recent ones, the namespaces, then one entry per note in the order they were created."""
    rows = call.app.notes.notes_after(call.caller, _cursor(position), PAGE + 1)
    recent = Listed(RECENT_URI, "recent", f"The {RECENT} notes last referenced.")
    first = [] if position else [recent, *_namespaces(call)]
    entries = [Listed(note_uri(id_), title) for _, id_, title in rows[:PAGE]]
    return Page([*first, *entries], ",".join(rows[PAGE - 1][:2]) if len(rows) > PAGE else None)


def _cursor(position: str | None) -> CreatedCursor:
    """Raises Invalid for a cursor that this server has not given."""
    if position is None:
        return CreatedCursor()
    created_at, comma, id_ = position.partition(",")
    if not comma:
        raise bad_cursor()
    return CreatedCursor(created_at, id_)


def _namespaces(call: Call) -> list[Listed]:
    """Those last changed; completion knows all of them."""
    found = call.app.notes.namespaces(call.caller).namespaces
    return [Listed(namespace_uri(one.namespace), one.namespace, f"{one.count} notes.") for one in found[:PAGE]]


def read(call: Call, uri: str) -> Document:
    """Raises NotFound for a note that is not there. A namespace or tag nobody uses is empty."""
    if uri == RECENT_URI:
        return _list(uri, call.app.notes.recent(call.caller, Filter(), RECENT))
    if uri.startswith(NOTE):
        note = call.app.notes.read(call.caller, decoded(uri.removeprefix(NOTE)), include_links=True)
        return Document(uri, json.dumps(_plain(note), ensure_ascii=False))
    if uri.startswith(NAMESPACE):
        return _list(
            uri, call.app.notes.recent(call.caller, Filter(namespace=decoded(uri.removeprefix(NAMESPACE))), FIRST)
        )
    if uri.startswith(TAG):
        return _list(uri, _tagged(call, decoded(uri.removeprefix(TAG)).removeprefix("#")))
    raise NotFound("No resource has this address. resources/list shows what there is.")


def _tagged(call: Call, tag: str) -> Recent:
    """Notes that were archived show up nowhere but under the tag that says so."""
    if tag_key(tag) == ARCHIVED:
        return call.app.notes.archived(call.caller, FIRST)
    return call.app.notes.recent(call.caller, Filter(tags=(tag,)), FIRST)


def watched(call: Call, uri: str) -> str | None:
    """Any note, namespace or tag, also one that is still to come, however spelled."""
    if uri.startswith(NOTE):
        return note_uri(decoded(uri.removeprefix(NOTE)))
    if uri.startswith(NAMESPACE):
        return namespace_uri(decoded(uri.removeprefix(NAMESPACE)))
    if uri.startswith(TAG):
        return tag_uri(decoded(uri.removeprefix(TAG)).removeprefix("#"))
    return RECENT_URI if uri == RECENT_URI else None


def complete(call: Call, name: str, value: str) -> list[str]:
    """Namespaces, tags, titles and ids, for the arguments of prompts and templates."""
    notes = call.app.notes
    if name in ("namespace", "ns"):
        return _starting(value, [found.namespace for found in notes.namespaces(call.caller).namespaces])
    if name == "tag":
        return notes.tags_starting(call.caller, value, COMPLETIONS)
    if name == "topic":
        tags = notes.tags_starting(call.caller, value, COMPLETIONS) if value else []
        return list(dict.fromkeys([*notes.titles_like(call.caller, value, COMPLETIONS), *tags]))
    if name == "id":
        return notes.ids_like(call.caller, value, COMPLETIONS)
    if name == "memory_ids":
        before, comma, last = value.rpartition(",")
        return [f"{before}{comma}{id_}" for id_ in notes.ids_like(call.caller, last.strip(), COMPLETIONS)]
    return []


def _starting(value: str, names: list[str]) -> list[str]:
    return [name for name in names if name.casefold().startswith(value.casefold())][:COMPLETIONS]


def _list(uri: str, found: Recent) -> Document:
    meta = {"memory-mcp/notice": found.notice} if found.notice else {}
    return Document(uri, json.dumps([asdict(note) for note in found.memories], ensure_ascii=False), meta=meta)


def _plain(note: Note) -> dict[str, Any]:
    return {name: value for name, value in asdict(note).items() if name != "similar"}
