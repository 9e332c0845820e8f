"""Lists of notes for users: parts of them, and counts to choose from."""

from dataclasses import dataclass
from typing import Literal

from memory_mcp.families.notes.model import Edge, UpdatedCursor

Order = Literal["updated", "created", "oldest", "title", "importance"]  # of a list


@dataclass(frozen=True)
class ListedPart:
    """Which part of a list of notes, and in which order."""

    limit: int
    after: UpdatedCursor | None = None  # in the order `updated`
    offset: int = 0  # notes to pass over
    order: Order = "updated"
    words: str = ""  # that the notes literally contain
    is_archived: bool = False  # of the soft-deleted notes


@dataclass(frozen=True)
class Facets:
    """How many notes match a filter, by each of their properties. A property that the filter names is counted as if the
    filter did not name it: these are the other choices."""

    total: int
    namespaces: dict[str, int]
    tags: dict[str, int]  # without those that the server adds
    clients: dict[str, int]
    sources: dict[str, int]
    days: dict[str, int]  # on which they were created, in UTC


@dataclass(frozen=True)
class Attention:
    """How many notes a person should look at, without messages of conversations."""

    superseded: int
    expired: int
    unembedded: int  # found by words only


@dataclass(frozen=True)
class PicturedNote:
    """A node of the graph of notes."""

    id: str
    title: str
    namespace: str
    degree: int  # how many links it has, also to notes that are not shown
    depth: int = 0  # links away from the note that the graph is around


@dataclass(frozen=True)
class NotesPicture:
    """As many notes as a graph shows."""

    nodes: list[PicturedNote]
    edges: list[Edge]
    total: int  # notes that there are
