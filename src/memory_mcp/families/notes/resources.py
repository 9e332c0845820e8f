"""memory://note/{id}, memory://namespace/{ns}, memory://tag/{tag} and memory://recent."""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qsl

from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import (
    Call,
    Document,
    ListedResource,
    ResourcePage,
    Template,
    bad_cursor,
    decoded,
    is_number,
)
from memory_mcp.families.notes.addresses import RECENT_URI, namespace_uri, note_uri, tag_uri
from memory_mcp.families.notes.model import ARCHIVED, CreatedCursor, Filter, Note, NoteSummary, Recent, tag_key
from memory_mcp.families.notes.operations import Notes

MAX_LISTED = 100  # notes in a reading of a namespace or a tag
MAX_RECENT = 20
MAX_OFFSET = 2**53
NAMESPACE_CURSOR_PREFIX = "namespaces after "  # how a cursor starts while namespaces are listed
WHOLE_IDS = re.compile(r'\s*\[?\s*"?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"?\s+)*')
MAX_COMPLETIONS = 100 + 1  # one more than the protocol shows, so that it can say there are more

CONVERSATIONS = "conversations/"  # how the namespaces of what was said begin
NOTE, NAMESPACE, TAG = "memory://note/", "memory://namespace/", "memory://tag/"
PREFIXES = (NOTE, NAMESPACE, TAG, RECENT_URI)
TEMPLATES = (
    Template(
        f"{NAMESPACE}{{ns}}", "namespace", f"The notes of a namespace (first {MAX_LISTED}; ?offset=&limit= for more)."
    ),
    Template(f"{NOTE}{{id}}", "note", "One note with its body, metadata and links."),
    Template(f"{TAG}{{tag}}", "tag", f"The notes with a tag (first {MAX_LISTED}; ?offset=&limit= for more)."),
)


def list_page(call: Call[Notes], cursor: str | None, limit: int) -> ResourcePage:
    """The recent ones, the namespaces by name, then one entry per note in the order they were created."""
    if cursor is not None and not cursor.startswith(NAMESPACE_CURSOR_PREFIX):
        return _notes_page(call, _cursor(cursor), [], limit)
    recent = ListedResource(RECENT_URI, "recent", f"The {MAX_RECENT} notes last referenced.")
    name = cursor.removeprefix(NAMESPACE_CURSOR_PREFIX) if cursor else ""
    listed = [] if cursor else [recent]
    limit -= len(listed)
    found = call.operations.reader.namespaces_after(call.caller, name, limit + 1)
    listed += [ListedResource(namespace_uri(name), name, f"{count} notes.") for name, count in found[:limit]]
    if len(found) > limit:
        return ResourcePage(listed, f"{NAMESPACE_CURSOR_PREFIX}{found[limit - 1][0]}")
    return _notes_page(call, CreatedCursor(), listed, limit - len(found))


def _notes_page(call: Call[Notes], after: CreatedCursor, before: list[ListedResource], limit: int) -> ResourcePage:
    """`before`, and up to `limit` notes."""
    rows = call.operations.reader.notes_after(call.caller, after, limit + 1)
    entries = [ListedResource(note_uri(id_), title) for _, id_, title in rows[:limit]]
    if len(rows) <= limit:
        return ResourcePage([*before, *entries])
    last = rows[limit - 1][:2] if limit else (after.created_at, after.id)
    return ResourcePage([*before, *entries], ",".join(last))


def _cursor(cursor: str) -> CreatedCursor:
    """Raises Invalid for a cursor that this server did not create."""
    created_at, comma, id_ = cursor.partition(",")
    if not comma:
        raise bad_cursor()
    return CreatedCursor(created_at, id_)


@dataclass(frozen=True)
class _ListRequest:
    """An address, and the requested part of its list."""

    address: str
    offset: int = 0
    limit: int | None = None


def _parse_uri(uri: str) -> _ListRequest:
    """Raises Invalid for an offset or a limit out of bounds. Any other query string is part of a name."""
    address, mark, query = uri.rpartition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    if not mark or not given or not set(given) <= {"offset", "limit"}:
        return _ListRequest(uri)
    return _ListRequest(
        address,
        _number("offset", given.get("offset", "0"), 0, MAX_OFFSET),
        _number("limit", given["limit"], 1, MAX_LISTED) if "limit" in given else None,
    )


def _number(name: str, text: str, minimum: int, maximum: int) -> int:
    if not (is_number(text) and minimum <= int(text) <= maximum):
        raise Invalid(f"{name} must be a whole number from {minimum} to {maximum}.", field=name)
    return int(text)


def read(call: Call[Notes], uri: str) -> Document:
    """Raises NotFound for a note that does not exist. A namespace or tag without notes is empty."""
    request = _parse_uri(uri)
    address, offset = request.address, request.offset
    if address.startswith(NOTE):
        return _note(call, uri, request)
    if address == RECENT_URI:
        limit = request.limit or MAX_RECENT
        found = call.operations.reader.recent(call.caller, Filter(), limit, offset)
    elif address.startswith(NAMESPACE):
        limit = request.limit or MAX_LISTED
        chosen = Filter(namespace=decoded(address.removeprefix(NAMESPACE)))
        found = call.operations.reader.recent(call.caller, chosen, limit, offset)
    elif address.startswith(TAG):
        limit = request.limit or MAX_LISTED
        found = _tagged(call, decoded(address.removeprefix(TAG)).removeprefix("#"), limit, offset)
    else:
        raise NotFound("No resource has this address.", hint="resources/list shows what there is.")
    return _list(uri, address, found, limit)


def read_note(call: Call[Notes], uri: str) -> Note:
    """One note; the offset is that of its links."""
    request = _parse_uri(uri)
    id_ = decoded(request.address.removeprefix(NOTE))
    return call.operations.reader.read(call.caller, id_, include_links=True, links_offset=request.offset)


def _note(call: Call[Notes], uri: str, request: _ListRequest) -> Document:
    note = read_note(call, uri)
    following = note.links.next_offset if note.links else None
    meta = {"memory-mcp/next": f"{request.address}?offset={following}"} if following else {}
    return Document(uri, json.dumps(plain(note), ensure_ascii=False), meta=meta)


def _tagged(call: Call[Notes], tag: str, limit: int, offset: int) -> Recent:
    """The notes with a tag. Archived notes are listed only under the tag `archived`."""
    if tag_key(tag) == ARCHIVED:
        return call.operations.reader.archived(call.caller, limit, offset)
    return call.operations.reader.recent(call.caller, Filter(tags=(tag,)), limit, offset)


def name_of_list(uri: str) -> str:
    """The name of the namespace or tag whose notes are listed at an address."""
    address = _parse_uri(uri).address
    prefix = next((prefix for prefix in (NAMESPACE, TAG) if address.startswith(prefix)), "memory://")
    return decoded(address.removeprefix(prefix))


def subscription_uri(call: Call[Notes], uri: str) -> str | None:
    """The canonical address of any note, namespace or tag, even if it does not exist yet."""
    address = _parse_uri(uri).address
    if address.startswith(NOTE):
        return note_uri(decoded(address.removeprefix(NOTE)))
    if address.startswith(NAMESPACE):
        return namespace_uri(decoded(address.removeprefix(NAMESPACE)))
    if address.startswith(TAG):
        return tag_uri(decoded(address.removeprefix(TAG)).removeprefix("#"))
    return RECENT_URI if address == RECENT_URI else None


def complete(call: Call[Notes], name: str, value: str) -> list[str]:
    """Namespaces, tags, titles and ids, for the arguments of prompts and templates."""
    notes = call.operations.reader
    if name in ("namespace", "ns"):
        return notes.namespaces_starting(call.caller, value, MAX_COMPLETIONS)
    if name == "tag":
        return notes.tags_starting(call.caller, value, MAX_COMPLETIONS)
    if name == "topic":
        tags = notes.tags_starting(call.caller, value, MAX_COMPLETIONS) if value else []
        return list(dict.fromkeys([*notes.titles_like(call.caller, value, MAX_COMPLETIONS), *tags]))
    if name == "id":
        return notes.ids_like(call.caller, value, MAX_COMPLETIONS)
    if name == "project":
        found = notes.namespaces_starting(call.caller, f"{CONVERSATIONS}{value}", MAX_COMPLETIONS)
        return [namespace.removeprefix(CONVERSATIONS) for namespace in found]
    if name == "memory_ids":
        before, last = _last_id(value)
        return [f"{before}{id_}" for id_ in notes.ids_like(call.caller, last, MAX_COMPLETIONS)]
    return []


def _last_id(text: str) -> tuple[str, str]:
    """The text before the last of several ids, and the beginning of that id or of a title."""
    before, comma, last = text.rpartition(",")
    ids = WHOLE_IDS.match(last)
    start = ids.end() if ids else 0
    return f"{before}{comma}{last[:start]}", last[start:].strip()


def _list(uri: str, address: str, found: Recent, limit: int) -> Document:
    meta: dict[str, Any] = {"memory-mcp/total": found.total}
    if found.next_offset is not None:
        meta["memory-mcp/next"] = f"{address}?offset={found.next_offset}&limit={limit}"
    if found.notice:
        meta["memory-mcp/notice"] = found.notice
    return Document(uri, json.dumps([_plain(note) for note in found.memories], ensure_ascii=False), meta=meta)


def plain(note: Note) -> dict[str, Any]:
    plain = {name: value for name, value in asdict(note).items() if name != "similar"}
    if note.origin is None:
        del plain["origin"]
    if note.links:
        plain["links"] = {name: value for name, value in plain["links"].items() if value is not None}
    return plain


def _plain(summary: NoteSummary) -> dict[str, Any]:
    """As the tools answer it: its source is for the web app."""
    hidden = ("source",) if summary.origin else ("source", "origin")
    return {name: value for name, value in asdict(summary).items() if name not in hidden}
