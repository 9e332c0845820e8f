"""What families declare for one search over everything: their texts, and what they find themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memory_mcp.caller import Caller
from memory_mcp.search.text_facts import UNKNOWN_FACTS, TextFacts
from memory_mcp.time_spans import ANY_TIME, Span


@dataclass(frozen=True)
class Text:
    """One thing a family keeps, as one search over everything reads it."""

    ref: str  # the address or path that opens it
    title: str  # as it is shown
    content: str
    tags: tuple[str, ...] = ()
    name: str | None = None  # what it is found by beside its content, where that is not the title
    facts: TextFacts = UNKNOWN_FACTS


@dataclass(frozen=True)
class Group:
    """Some of a family's texts: those of a store, a project, a portal."""

    name: str
    versions: Callable[[], Mapping[str, str]]
    """By the key of each text, something that changes whenever the text does. May take a while."""
    texts: Callable[[Sequence[str]], Iterable[Text | None]]
    """The texts of some keys; None of one that is gone by now."""
    version: str | None = None  # that of the whole group, where it is known without looking at each


Groups = Callable[[Caller], Iterable[Group]]
"""All that a family keeps for a caller."""

Purge = Callable[[Caller, str], None]
"""Of a caller and the name of a group that texts were deleted from."""


@dataclass(frozen=True)
class TextQuery:
    """What one search over everything looks for in a family."""

    query: str
    tags: tuple[str, ...]
    limit: int
    created: Span = ANY_TIME  # when


@dataclass(frozen=True)
class Match:
    """What one family found, before it is ranked among the others' matches."""

    ref: str
    title: str
    snippet: str
    score: float
    cosine: float | None
    lexical: float | None
    facts: TextFacts = UNKNOWN_FACTS
    closeness: float | None = None  # to the query, comparable with other queries; None: no vectors were compared


@dataclass(frozen=True)
class Searched:
    """The span of time that a search was limited to: from `after` on, until just before `before`."""

    after: str | None
    before: str | None


SearchedSpan = Annotated[Searched | None, Field(exclude_if=lambda value: value is None)]
"""Of the answer to a search with a span."""


def searched(span: Span) -> Searched | None:
    return None if span.is_whole else Searched(span.after, span.before)
