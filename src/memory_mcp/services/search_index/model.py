from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.engines.transactions import Read
from memory_mcp.services.search.text_facts import UNKNOWN_FACTS, TextFacts
from memory_mcp.text.time_spans import ANY_TIME, Span


@dataclass(frozen=True)
class EmbedText:
    """A text as the embedder gets it."""

    title: str  # empty if the content has it
    content: str


ReadTexts = Callable[[Read, Sequence[int]], Mapping[int, EmbedText]]
"""The texts of some rows, by their seq."""


@dataclass(frozen=True)
class IndexText:
    """A text of another part of the server, to be found by a `SearchIndex`."""

    id: str
    ref: str
    label: str  # what a hit shows as its title
    title: str  # what is searched as its title
    content: str
    tags: tuple[str, ...] = ()
    facts: TextFacts = UNKNOWN_FACTS  # its times precise, in UTC


@dataclass(frozen=True)
class IndexQuery:
    text: str
    group_prefix: str  # only texts of groups whose name starts with it
    tags: tuple[str, ...] = ()  # only texts that have all of these
    limit: int = 20
    created: Span = ANY_TIME  # only texts of this span
    is_confined: bool = False  # scores depend on nothing outside of those groups


@dataclass(frozen=True)
class IndexHit:
    ref: str
    label: str
    snippet: str
    score: float
    cosine: float | None  # None: no vectors were compared
    lexical: float | None
    facts: TextFacts
    closeness: float | None = None  # to the query, comparable with other queries; None: no vectors were compared
