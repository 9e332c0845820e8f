"""The texts of families that recall indexes, and the matches that families find themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memory_mcp.caller import Caller
from memory_mcp.services.search.text_facts import UNKNOWN_FACTS, TextFacts
from memory_mcp.text.time_spans import ANY_TIME, Span


@dataclass(frozen=True)
class Text:
    """One memory, as recall indexes it."""

    ref: str  # the address or path that opens it
    title: str  # as it is shown
    content: str
    tags: tuple[str, ...] = ()
    name: str | None = None  # that it is found by, in addition to its content, if that is not the title
    facts: TextFacts = UNKNOWN_FACTS


@dataclass(frozen=True)
class Group:
    """A group of a family's texts: those of a store, a project or a portal."""

    name: str
    versions: Callable[[], Mapping[str, str]]
    """By the key of each text, a value that changes whenever the text does. May take long."""
    texts: Callable[[Sequence[str]], Iterable[Text | None]]
    """The texts of some keys; None for a text that was deleted meanwhile."""
    version: str | None = None  # of the whole group, if it is known without reading each text


Groups = Callable[[Caller], Iterable[Group]]
"""All texts of a family that a caller may see."""

Purge = Callable[[Caller, str], None]
"""Called with the caller, and the name of the group that texts were deleted from."""


@dataclass(frozen=True)
class TextQuery:
    """A query of recall to a family."""

    query: str
    tags: tuple[str, ...]
    limit: int
    created: Span = ANY_TIME  # when


@dataclass(frozen=True)
class Match:
    """A match of one family, before it is ranked among those of others."""

    ref: str
    title: str
    snippet: str
    score: float
    cosine: float | None
    lexical: float | None
    facts: TextFacts = UNKNOWN_FACTS
    closeness: float | None = None  # to the query, comparable with other queries; None: no vectors were compared
    superseded_by: str | None = None  # the reference of the memory that replaces this one
    has_context: bool = False  # the last text before it in this family is part of its score


@dataclass(frozen=True)
class Searched:
    """The span of time that a search was limited to: from `after` on, until just before `before`."""

    after: str | None
    before: str | None


SearchedSpan = Annotated[Searched | None, Field(exclude_if=lambda value: value is None)]
"""A field of the answer to a search with a span."""


def searched(span: Span) -> Searched | None:
    return None if span.is_whole else Searched(span.after, span.before)
