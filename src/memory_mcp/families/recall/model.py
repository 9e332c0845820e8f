from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memory_mcp.families.family import Notice


@dataclass(frozen=True)
class RecallQuery:
    query: str
    families: tuple[str, ...] = ()  # empty: all
    tags: tuple[str, ...] = ()
    limit: int = 10


# Answers go over the wire as they stand.


@dataclass(frozen=True)
class RecallHit:
    family: str
    ref: Annotated[str, Field(description="The address or path that opens it.")]
    title: str
    snippet: str
    score: float
    why: Annotated[str, Field(description="What it was found by: its words, its meaning, or both.")]


@dataclass(frozen=True)
class Incomplete:
    family: str
    error: str


@dataclass(frozen=True)
class Recalled:
    hits: list[RecallHit]
    searched: list[str]
    incomplete: Annotated[list[Incomplete], Field(description="Families whose memories may be missing here.")]
    notice: Notice = None
