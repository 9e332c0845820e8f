import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from memory_mcp.families.family import LEFT_OUT, Notice, OriginText
from memory_mcp.families.texts import SearchedSpan
from memory_mcp.services.search.ranking import DEFAULT_IMPORTANCE
from memory_mcp.text.time_spans import ANY_TIME, Span

Source = Literal["mcp", "ui", "import", "sync", "hook"]
Mode = Literal["hybrid", "lexical", "semantic"]
NoteState = Literal["superseded", "expired", "unembedded"]  # of notes that need attention

MAX_METADATA_BYTES = 1024 * 1024
ARCHIVED = "archived"  # the tag of a note that was deleted softly
SYSTEM_TAGS = ("mcp", "memory")
IMPORTED_FROM = "imported_from"  # the key of an Origin in a note's metadata


@dataclass(frozen=True)
class Author:
    """Who writes a note, and from where."""

    source: Source = "mcp"
    client: str | None = None  # kebab-case
    session_id: str | None = None


@dataclass(frozen=True)
class NewNote:
    content: str
    title: str | None = None  # None: the content's first line
    tags: tuple[str, ...] = ()
    importance: float = DEFAULT_IMPORTANCE
    namespace: str | None = None  # None: the caller's own
    folder: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expires_at: str | None = None
    supersedes: tuple[str, ...] = ()
    created_at: str | None = None  # None: now. An imported note keeps the times it had
    updated_at: str | None = None  # None: when it was created
    id: str | None = None  # None: a new one


@dataclass(frozen=True)
class ImportOrigin:
    """Where an imported note came from, and a digest of its text there. In its metadata, as `imported_from`."""

    format: str
    id: str
    digest: str
    version: int = 1  # of the note, as the import left it


@dataclass(frozen=True)
class ImportedNote:
    """A note that an import has made."""

    id: str
    origin: ImportOrigin
    version: int

    @property
    def is_untouched(self) -> bool:
        """It has not been changed or archived since."""
        return self.version == self.origin.version


@dataclass(frozen=True)
class Tag:
    name: str
    origin: Literal["user", "system", "inline", "state"]

    @property
    def key(self) -> str:
        return tag_key(self.name)


def tag_key(tag: str) -> str:
    return tag.casefold()


def client_tag(name: str) -> str | None:
    """'Claude Desktop' and 'claudeDesktop' as a tag: claude-desktop."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    return re.sub(r"[\W_]+", "-", spaced).casefold()[:64].strip("-") or None


def folded(text: str) -> str:
    """A text without regard to case and spacing: how titles are compared, and whole notes."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class Revision:
    """Changes of a note. A field that is None stays as it is."""

    content: str | None = None
    title: str | None = None
    folder: str | None = None
    importance: float | None = None
    namespace: str | None = None
    tags: tuple[str, ...] | None = None  # instead of the user's tags so far
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    metadata_patch: Mapping[str, Any] = field(default_factory=dict)  # None removes a key
    expires_at: str | None = None  # empty: never
    supersedes: tuple[str, ...] = ()
    updated_at: str | None = None  # for an undo: when the note was changed last before; otherwise now


@dataclass(frozen=True)
class Filter:
    """Which notes are wanted: those that match all of the fields."""

    namespace: str | None = None
    within: str | None = None  # the namespace that the caller is confined to
    folder: str | None = None
    tags: tuple[str, ...] = ()
    min_importance: float = 0.0
    source: Source | None = None
    created: Span = ANY_TIME  # when
    title: str | None = None  # the whole of it, as [[wikilinks]] compare it
    session: str | None = None  # the session it was written in
    excluded_source: Source | None = None  # any source but this one
    client: str | None = None  # who wrote it first
    is_current: bool = False  # no other note supersedes it
    state: NoteState | None = None
    ids: tuple[str, ...] = ()  # only some of these

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    @property
    def is_confined(self) -> bool:
        """Whether the caller may not learn anything of the other notes."""
        return self.within is not None


@dataclass(frozen=True)
class UpdatedCursor:
    """Where a list of notes, the one last written first, goes on."""

    updated_at: str
    seq: int


@dataclass(frozen=True)
class CreatedCursor:
    """Where a list of notes, the oldest first, goes on. It reveals nothing about other notes."""

    created_at: str = ""
    id: str = ""


@dataclass(frozen=True)
class NoteQuery:
    query: str
    filter: Filter = Filter()
    mode: Mode = "hybrid"
    limit: int = 20
    offset: int = 0  # hits to skip
    has_details: bool = True  # each hit has the parts of its score
    falls_back: bool = True  # to the plain words of an FTS5 expression that matches nothing
    compares_sessions: bool = True  # hits of sessions that fit less well than the best one are reduced

    @property
    def end(self) -> int:
        return self.offset + self.limit


# Answers: their fields are sent as they are.

Total = Annotated[int, Field(description="How many there are in all.")]
NextOffset = Annotated[int | None, LEFT_OUT, Field(description="There are more: give this as the offset.")]


@dataclass(frozen=True)
class Link:
    id: str
    title: str


@dataclass(frozen=True)
class LinkTotals:
    outgoing: int
    incoming: int
    dangling: int


@dataclass(frozen=True)
class Links:
    outgoing: list[Link]
    incoming: list[Link]
    dangling: Annotated[list[str], Field(description="Titles no note has yet.")]
    total: LinkTotals
    next_offset: Annotated[int | None, LEFT_OUT, Field(description="There are more: give this as links_offset.")] = None
    notice: Notice = None


@dataclass(frozen=True)
class Note:
    id: str
    user_id: str
    namespace: str
    title: str
    content: str
    folder: str
    tags: list[str]
    importance: float
    metadata: dict[str, Any]
    source: Source
    client: str | None
    created_at: str
    updated_at: str
    last_referenced_at: str | None
    archived: bool
    expires_at: str | None
    superseded_by: Annotated[str | None, Field(description="Id of the note that replaces this one.")]
    version: Annotated[int, Field(description="Grows with each change; memory_get gives former ones.")]
    links: Annotated[Links | None, LEFT_OUT] = None
    similar: Annotated[list[str] | None, LEFT_OUT, Field(description="Notes that say nearly the same.")] = None
    origin: OriginText = None  # of the last change


@dataclass(frozen=True)
class NoteSummary:
    """A note as lists show it."""

    id: str
    title: str
    snippet: str
    namespace: str
    tags: list[str]
    importance: float
    updated_at: str
    last_referenced_at: str | None
    source: Annotated[Source, Field(exclude=True)]  # for the web app
    origin: OriginText = None


@dataclass(frozen=True)
class Breakdown:
    """The parts of a score, each in [0, 1]; null for a part that was not looked at."""

    cosine: float | None
    lexical: float | None
    importance: float


@dataclass(frozen=True)
class NoteHit:
    id: str
    title: str
    snippet: str
    tags: list[str]
    importance: float
    namespace: str
    created_at: str
    updated_at: str
    last_referenced_at: str | None
    score: float
    score_breakdown: Annotated[Breakdown | None, LEFT_OUT]
    source: Annotated[Source, Field(exclude=True)]  # for recall
    origin: OriginText = None
    superseded_by: Annotated[str | None, LEFT_OUT, Field(description="A newer note replaces this one.")] = None
    closeness: Annotated[float | None, Field(exclude=True)] = None  # for hooks
    session_id: Annotated[str | None, Field(exclude=True)] = None  # that wrote it first; for recall


@dataclass(frozen=True)
class NoteHits:
    memories: list[NoteHit]
    total: Annotated[int | None, LEFT_OUT, Field(description="How many fit the filter; without a query only.")] = None
    next_offset: NextOffset = None
    searched_span: SearchedSpan = None
    notice: Notice = None


@dataclass(frozen=True)
class Recent:
    memories: list[NoteSummary]
    total: Total
    next_offset: NextOffset = None
    notice: Notice = None


@dataclass(frozen=True)
class Deleted:
    id: str
    deleted: bool
    soft: bool


@dataclass(frozen=True)
class Linked:
    linked: int


@dataclass(frozen=True)
class Unlinked:
    unlinked: int


@dataclass(frozen=True)
class Namespace:
    namespace: str
    count: int
    updated_at: str


@dataclass(frozen=True)
class Namespaces:
    namespaces: list[Namespace]
    total: Total
    next_offset: NextOffset = None
    notice: Notice = None


@dataclass(frozen=True)
class TagCount:
    tag: str
    count: int


@dataclass(frozen=True)
class TagCounts:
    tags: list[TagCount]
    total: Total
    next_offset: NextOffset = None
    notice: Notice = None


@dataclass(frozen=True)
class Node:
    id: str
    title: str
    depth: int


@dataclass(frozen=True)
class Edge:
    source_id: str
    target_id: str


@dataclass(frozen=True)
class Neighbourhood:
    nodes: list[Node]
    edges: list[Edge]
    truncated: bool
    total: Annotated[int | None, LEFT_OUT, Field(description="Notes within depth; of very many, at least these.")] = (
        None
    )
    next_offset: NextOffset = None
    notice: Notice = None


@dataclass(frozen=True)
class Counted:
    name: str
    count: int


@dataclass(frozen=True)
class Stats:
    total: int
    by_source: dict[str, int]
    by_namespace: dict[str, int]
    top_tags: list[Counted]
    top_clients: list[Counted]
    avg_importance: float
    notice: Notice = None


@dataclass(frozen=True)
class Totals:
    """The numbers that Home shows about notes."""

    notes: int
    unarchived: int  # with those that have expired
    namespaces: int
    embedded: int
    waiting: int  # for their vectors
    top_tags: list[Counted]
    top_clients: list[Counted]


@dataclass(frozen=True)
class EmbedStats:
    queue_size: int
    total: int
    total_with_embedding: int
    backend_name: str | None
    backend_dim: int | None
    enabled: bool
