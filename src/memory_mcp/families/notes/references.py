"""References of notes: memory://note/ID, an id alone, memory://namespace/NAME, memory://tag/TAG, memory://recent, and
conversation:ID for all messages that hooks stored of a conversation."""

import json
from dataclasses import asdict

from memory_mcp.engines.sqlite.database_kind import is_id
from memory_mcp.errors import NotFound
from memory_mcp.families.family import Call, Document, decoded
from memory_mcp.families.notes import resources
from memory_mcp.families.notes.addresses import CONVERSATION, note_uri
from memory_mcp.families.notes.edits import EDITS
from memory_mcp.families.notes.model import Filter, Note
from memory_mcp.families.notes.operations import Notes
from memory_mcp.families.references import NamedByReference, Opened, References, TakesReference, text_of_list

MAX_MESSAGES = 5000  # of a conversation that is opened as one text


def _named_note(text: str) -> NamedByReference | None:
    return NamedByReference(decoded(text.removeprefix(resources.NOTE))) if text.startswith(resources.NOTE) else None


def _named_namespace(text: str) -> NamedByReference | None:
    return (
        NamedByReference(decoded(text.removeprefix(resources.NAMESPACE)))
        if text.startswith(resources.NAMESPACE)
        else None
    )


NOTE_ID = TakesReference(_named_note)
NAMESPACE = TakesReference(_named_namespace, may_be_new=True)


def _open(call: Call[Notes], ref: str) -> Opened:
    if ref.startswith(CONVERSATION):
        return _conversation(call, ref)
    uri = note_uri(ref) if is_id(ref) else ref
    if not uri.startswith(resources.NOTE):
        return _list(resources.read(call, uri))
    note = resources.read_note(call, uri)
    return Opened(note_uri(note.id), note.title, note.content, resources.plain(note), note.created_at, note.updated_at)


def _conversation(call: Call[Notes], ref: str) -> Opened:
    """Its messages, in their order."""
    chosen = Filter(source="hook", session=ref.removeprefix(CONVERSATION))
    messages, _ = call.operations.series.page(call.caller, chosen, 0, MAX_MESSAGES)
    if not messages:
        raise NotFound(f"There is no conversation {ref!r}.", ref=ref)
    first, last = messages[0], messages[-1]
    details = {
        "ref": ref,
        "source": first.source,
        "client": first.client,
        "messages": [asdict(one) for one in messages],
    }
    text = "\n\n".join(map(_message_text, messages))
    return Opened(ref, first.title, text, details, first.created_at, last.created_at)


def _message_text(note: Note) -> str:
    return f"{note.metadata.get('role')}, {note.created_at} ({note_uri(note.id)}):\n{note.content}"


def _list(document: Document) -> Opened:
    notes = json.loads(document.text)
    title = resources.name_of_list(document.uri)
    lines = [f"{note['title']} ({note_uri(note['id'])}, {note['updated_at']})" for note in notes]
    total, following = document.meta["memory-mcp/total"], document.meta.get("memory-mcp/next")
    heading = f"{title}: {total} {'note' if total == 1 else 'notes'}"
    latest = max((note["updated_at"] for note in notes), default=None)
    return Opened(document.uri, title, text_of_list(heading, lines, following), notes, updated_at=latest)


REFERENCES = References[Notes](
    "memory://note/ID",
    (*resources.PREFIXES, CONVERSATION),
    _open,
    tool="memory_get",
    is_bare=is_id,
    all_groups=resources.NAMESPACE,
    edits=EDITS,
)
