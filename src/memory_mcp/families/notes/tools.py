from typing import Annotated, Any

from pydantic import Field

from memory_mcp.caller import Scope
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.errors import Invalid
from memory_mcp.families.family import READABLE, Arguments, Call
from memory_mcp.families.notes.family import notes as notes
from memory_mcp.families.notes.model import (
    ARCHIVED,
    Author,
    Deleted,
    Filter,
    Linked,
    Mode,
    Namespaces,
    Neighbourhood,
    NewNote,
    Note,
    NoteHits,
    NoteQuery,
    Recent,
    Revision,
    Source,
    Stats,
    TagCounts,
    Unlinked,
    client_tag,
    tag_key,
)
from memory_mcp.families.notes.operations import Notes
from memory_mcp.families.notes.references import NAMESPACE, NOTE_ID
from memory_mcp.text.names import MAX_NAMESPACE_CHARS, hidden_character, new_namespace

Id = Annotated[str, Field(min_length=1, max_length=64), NOTE_ID]
Ids = Annotated[list[Id], Field(max_length=64)]
Text = Annotated[str, Field(max_length=1024 * 1024)]
Title = Annotated[str, Field(min_length=1, max_length=300)]
Folder = Annotated[str, Field(max_length=512), READABLE]
Namespace = Annotated[str, Field(max_length=MAX_NAMESPACE_CHARS), NAMESPACE]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=64)]
Importance = Annotated[float, Field(ge=0, le=1)]
Moment = Annotated[str, Field(min_length=1, max_length=64)]
Limit = Annotated[int, Field(ge=1, le=100)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Offset = Annotated[int, Field(ge=0, le=10**6)]


class MemorySearch(Arguments):
    query: Text = Field("", description="May be empty with a filter: newest first.")
    limit: Limit = 20
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    namespace: Namespace | None = None
    tags: Tags = Field([], description="Only notes with all of these.")
    min_importance: Importance = 0
    source: Source | None = None
    search_mode: Mode = "hybrid"
    created_after: Moment | None = Field(None, description="ISO 8601 or words: last week, since Monday, in May.")
    created_before: Moment | None = Field(None, description="The same; with all of the day or month it names.")
    details: bool = Field(True, description="false: no score_breakdown.")


@notes.tool(MemorySearch, answers=NoteHits, title="Search notes", needs=Scope.READ, idempotent=True)
def memory_search(call: Call[Notes], arguments: MemorySearch) -> NoteHits:
    """Notes: find by meaning, words and importance. Best first, with a score and its parts. In all families:
    recall_memories."""
    chosen = Filter(
        namespace=_namespace(arguments.namespace),
        tags=_tags("tags", arguments.tags),
        min_importance=arguments.min_importance,
        source=arguments.source,
        created=call.operations.times.span(
            arguments.created_after, arguments.created_before, "created_after", "created_before"
        ),
    )
    query = NoteQuery(
        *(arguments.query.strip(), chosen, arguments.search_mode, arguments.limit, arguments.offset, arguments.details)
    )
    return call.operations.reader.search(call.caller, query)


class MemoryGet(Arguments):
    id: Id
    include_links: bool = False
    links_offset: Offset = 0
    version: Count | None = Field(None, description="A former version.")


@notes.tool(MemoryGet, answers=Note, title="Read a note", needs=Scope.READ, idempotent=True)
def memory_get(call: Call[Notes], arguments: MemoryGet) -> Note:
    """Note: read it in full, optionally with its links. Moves it to the top of memory_recent."""
    return call.operations.reader.get(
        call.caller,
        arguments.id,
        include_links=arguments.include_links,
        links_offset=arguments.links_offset,
        version=arguments.version,
    )


OWN_FACTS = ("id", "created_at", "updated_at", "version")
"""The fields of a note that a writer without the right to read gets."""


class MemoryCreate(Arguments):
    content: Text = Field(min_length=1, description="Markdown. #tags and [[Title]] links in it count.")
    title: Title | None = None
    tags: Tags = Field([])
    importance: Importance = 0.5
    namespace: Namespace | None = None
    folder: Folder = ""
    metadata: dict[str, Any] = Field({})
    expires_at: Moment | None = Field(None, description="ISO 8601.")
    supersedes: Ids = Field([], description="Notes this one replaces.")


@notes.tool(MemoryCreate, answers=Note, title="Keep a note", needs=Scope.WRITE, without_read=OWN_FACTS)
def memory_create(call: Call[Notes], arguments: MemoryCreate) -> Note:
    """Note: remember something, to be found by its meaning. `similar` in the answer names notes that you may rather
    update. One fact under a key: commit_memory. A file that people edit: add_memory."""
    new = NewNote(
        content=arguments.content,
        title=_title(arguments.title),
        tags=_own_tags("tags", arguments.tags),
        importance=arguments.importance,
        namespace=_new_namespace(arguments.namespace),
        folder=arguments.folder,
        metadata=arguments.metadata,
        expires_at=_moment("expires_at", arguments.expires_at),
        supersedes=tuple(arguments.supersedes),
    )
    return call.operations.writer.create(call.caller, _author(call), new)


class MemoryUpdate(Arguments):
    id: Id
    content: Annotated[Text, Field(min_length=1)] | None = None
    title: Title | None = None
    folder: Folder | None = None
    importance: Importance | None = None
    namespace: Namespace | None = None
    tags: Tags | None = Field(None, description="Replaces the user's tags.")
    add_tags: Tags = Field([])
    remove_tags: Tags = Field([], description="'archived' restores a deleted note.")
    metadata_patch: dict[str, Any] = Field({}, description="Merged in; null removes a key.")
    expires_at: Annotated[str, Field(max_length=64)] | None = Field(None, description="ISO 8601; empty: never.")
    supersedes: Ids = Field([])


@notes.tool(
    MemoryUpdate,
    answers=Note,
    title="Change a note",
    needs=Scope.WRITE,
    destructive=True,
    idempotent=True,
    without_read=OWN_FACTS,
)
def memory_update(call: Call[Notes], arguments: MemoryUpdate) -> Note:
    """Note: change some fields. The former version is kept (memory_get with version)."""
    if arguments.model_fields_set <= {"id"}:
        raise Invalid("Nothing to change. Give at least one field beside id.", field="id")
    revision = Revision(
        content=arguments.content,
        title=_title(arguments.title),
        folder=arguments.folder,
        importance=arguments.importance,
        namespace=_new_namespace(arguments.namespace),
        tags=None if arguments.tags is None else _own_tags("tags", arguments.tags),
        add_tags=_own_tags("add_tags", arguments.add_tags),
        remove_tags=_tags("remove_tags", arguments.remove_tags),
        metadata_patch=arguments.metadata_patch,
        expires_at="" if arguments.expires_at == "" else _moment("expires_at", arguments.expires_at),
        supersedes=tuple(arguments.supersedes),
    )
    return call.operations.writer.update(call.caller, _author(call), arguments.id, revision)


class MemoryDelete(Arguments):
    id: Id
    soft: bool = Field(True, description="false: for good.")


@notes.tool(MemoryDelete, answers=Deleted, title="Delete a note", needs=Scope.DELETE, destructive=True, idempotent=True)
def memory_delete(call: Call[Notes], arguments: MemoryDelete) -> Deleted:
    """Note: archive it (#archived, importance 0) so that it no longer surfaces, or delete it for good."""
    return call.operations.writer.delete(call.caller, arguments.id, soft=arguments.soft)


class MemoryLink(Arguments):
    source_id: Id
    target_id: Id
    bidirectional: bool = False


@notes.tool(MemoryLink, answers=Linked, title="Link notes", needs=Scope.LINK, idempotent=True)
def memory_link(call: Call[Notes], arguments: MemoryLink) -> Linked:
    """Notes: link one to another. Answers how many links are new."""
    return call.operations.writer.link(
        call.caller, arguments.source_id, arguments.target_id, bidirectional=arguments.bidirectional
    )


@notes.tool(MemoryLink, answers=Unlinked, title="Unlink notes", needs=Scope.LINK, destructive=True, idempotent=True)
def memory_unlink(call: Call[Notes], arguments: MemoryLink) -> Unlinked:
    """Notes: remove a link. A [[Title]] in a body stays a link."""
    return call.operations.writer.unlink(
        call.caller, arguments.source_id, arguments.target_id, bidirectional=arguments.bidirectional
    )


class MemoryListNamespaces(Arguments):
    offset: Offset = 0


@notes.tool(MemoryListNamespaces, answers=Namespaces, title="Namespaces of notes", needs=Scope.READ, idempotent=True)
def memory_list_namespaces(call: Call[Notes], arguments: MemoryListNamespaces) -> Namespaces:
    """Notes: every namespace with its count."""
    return call.operations.reader.namespaces(call.caller, arguments.offset)


class MemoryListTags(Arguments):
    namespace: Namespace | None = None
    min_count: Count = 1
    offset: Offset = 0


@notes.tool(MemoryListTags, answers=TagCounts, title="Tags of notes", needs=Scope.READ, idempotent=True)
def memory_list_tags(call: Call[Notes], arguments: MemoryListTags) -> TagCounts:
    """Notes: every tag with its count, the most used first."""
    return call.operations.reader.tags(
        call.caller, _namespace(arguments.namespace), arguments.min_count, arguments.offset
    )


class MemoryRecent(Arguments):
    limit: Limit = 20
    offset: Offset = 0
    namespace: Namespace | None = None


@notes.tool(MemoryRecent, answers=Recent, title="Recent notes", needs=Scope.READ, idempotent=True)
def memory_recent(call: Call[Notes], arguments: MemoryRecent) -> Recent:
    """Notes: those last read with memory_get, then those last written."""
    return call.operations.reader.recent(
        call.caller, Filter(_namespace(arguments.namespace)), arguments.limit, arguments.offset
    )


class MemoryNeighbors(Arguments):
    id: Id
    depth: Annotated[int, Field(ge=1, le=3)] = 1
    offset: Offset = 0


@notes.tool(MemoryNeighbors, answers=Neighbourhood, title="Neighbours of a note", needs=Scope.READ, idempotent=True)
def memory_neighbors(call: Call[Notes], arguments: MemoryNeighbors) -> Neighbourhood:
    """Notes: those linked with one, in either direction, up to `depth` links away."""
    return call.operations.reader.neighbors(call.caller, arguments.id, arguments.depth, arguments.offset)


class MemoryStats(Arguments):
    namespace: Namespace | None = None


@notes.tool(MemoryStats, answers=Stats, title="Statistics of notes", needs=Scope.READ, idempotent=True)
def memory_stats(call: Call[Notes], arguments: MemoryStats) -> Stats:
    """Notes: totals, top tags and clients, average importance."""
    return call.operations.reader.stats(call.caller, _namespace(arguments.namespace))


def _author(call: Call[Notes]) -> Author:
    source: Source = "ui" if call.caller.is_person else "mcp"
    return Author(source, client_tag(call.session.client), call.session.id)


def _namespace(name: str | None) -> str | None:
    """None for an empty name."""
    return (name or "").strip() or None


def _new_namespace(name: str | None) -> str | None:
    return new_namespace(name) if name and name.strip() else None


def _is_line(name: str) -> bool:
    """Whether a name fits on a line. Joiners that emoji and some scripts need are allowed."""
    return name.isprintable() or hidden_character(name) is None


def _title(title: str | None) -> str | None:
    return " ".join((title or "").split()) or None


def _tags(field: str, names: list[str]) -> tuple[str, ...]:
    """Tags without a leading #, without duplicates in any case."""
    kept: dict[str, str] = {}
    for name in names:
        tag = name.strip().removeprefix("#").strip()
        if not tag or "," in tag or not _is_line(tag):
            raise Invalid(
                f"{name!r} is not a tag: it must not be empty, or contain a comma or line break. Give two tags as two.",
                field=field,
            )
        kept.setdefault(tag_key(tag), tag)
    return tuple(kept.values())


def _own_tags(field: str, names: list[str]) -> tuple[str, ...]:
    tags = _tags(field, names)
    if hidden := next(filter(None, map(hidden_character, tags)), None):
        raise Invalid(f"{field}: a tag holds {hidden}, which cannot be seen. Leave it out.", field=field)
    if ARCHIVED in map(tag_key, tags):
        raise Invalid(
            "Only the server sets the tag of archived notes.", hint="memory_delete archives a note.", field=field
        )
    return tags


def _moment(field: str, text: str | None) -> str | None:
    """An instant in UTC. A date alone is the start of the day."""
    if text is None:
        return None
    try:
        return precise_stamp(instant(text))
    except ValueError as exc:
        raise Invalid(
            f"{field} must be an ISO 8601 date or time such as 2026-04-27 or 2026-04-27T14:00:00Z.", field=field
        ) from exc
