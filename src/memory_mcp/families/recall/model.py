from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memory_mcp.families.family import LEFT_OUT, Notice, OriginText
from memory_mcp.families.texts import SearchedSpan
from memory_mcp.text.time_spans import ANY_TIME, Span


@dataclass(frozen=True)
class RecallQuery:
    query: str
    families: tuple[str, ...] = ()  # empty: all
    tags: tuple[str, ...] = ()
    limit: int = 10
    created: Span = ANY_TIME


# Answers: their fields are sent as they are.


@dataclass(frozen=True)
class RecallHit:
    family: str
    ref: Annotated[str, Field(description="recall_open opens it.")]
    title: str
    snippet: str
    score: float
    why: Annotated[str, Field(description="What it was found by: its words, its meaning or both, or its time.")]
    created_at: str | None
    updated_at: str | None
    namespace: Annotated[str | None, LEFT_OUT] = None
    source: Annotated[str | None, LEFT_OUT] = None
    origin: OriginText = None


@dataclass(frozen=True)
class Incomplete:
    family: str
    error: str


@dataclass(frozen=True)
class Recalled:
    hits: list[RecallHit]
    searched: list[str]
    incomplete: Annotated[list[Incomplete], Field(description="Families whose memories may be missing here.")]
    searched_span: SearchedSpan = None
    notice: Notice = None


@dataclass(frozen=True)
class OpenedPage:
    """A page of the memory that a reference names."""

    family: str
    ref: str
    title: str
    content: str
    created_at: str | None = None
    updated_at: str | None = None
    origin: OriginText = None
    nextOffset: Annotated[int | None, LEFT_OUT, Field(description="There is more: give this as the offset.")] = None  # noqa: N815


@dataclass(frozen=True)
class GroupShown:
    """A namespace, store, project or portal."""

    name: str
    count: Annotated[int | None, Field(description="Null if only the portal's engine knows.")]
    last_write: str | None
    tables: Annotated[dict[str, int] | None, LEFT_OUT, Field(description="Of a portal: the rows of each.")] = None


@dataclass(frozen=True)
class FamilyShown:
    family: str
    count: int
    last_write: str | None
    groups: list[GroupShown]


@dataclass(frozen=True)
class Overview:
    families: list[FamilyShown]
    notice: Notice = None
