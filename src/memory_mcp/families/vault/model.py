from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import Field

from memory_mcp.families.family import LEFT_OUT

MemoryScope = Literal["session", "vault"]
MemoryScopes = Literal["session", "vault", "all"]

VAULT_URI = "memory://vault"


@dataclass(frozen=True)
class NewMemory:
    scope: MemoryScope
    key: str
    content: str
    tags: tuple[str, ...] = ()
    embedding: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Memory:
    """One memory as resources show it; the fields and their order are the spec's."""

    key: str
    content: str
    tags: list[str]
    scope: MemoryScope
    created_at: str
    updated_at: str


@dataclass(frozen=True)
class MemoryQuery:
    query: str = ""
    scope: MemoryScopes = "all"
    tags: tuple[str, ...] = ()
    embedding: tuple[float, ...] | None = None
    limit: int = 10

    def covers(self, scope: MemoryScope) -> bool:
        return self.scope in (scope, "all")


@dataclass(frozen=True)
class PruneFilter:
    """Which memories to delete: those that match every given filter."""

    scope: MemoryScopes
    key: str | None = None
    older_than: str | None = None  # a stamp
    tags: tuple[str, ...] = ()

    def covers(self, scope: MemoryScope) -> bool:
        return self.scope in (scope, "all")

    @property
    def has_filter(self) -> bool:
        return self.key is not None or self.older_than is not None or bool(self.tags)


@dataclass(frozen=True)
class Range:
    offset: int = 0
    limit: int = 100


# Answers: their fields are the spec's output schemas, and are sent as they are.


@dataclass(frozen=True)
class Committed:
    committed: bool
    key: str
    scope: MemoryScope


@dataclass(frozen=True)
class MemoryHit:
    key: str
    content: str
    tags: list[str]
    scope: MemoryScope
    relevance: Annotated[float, Field(ge=0, le=1, description="Score in [0,1]; 1.0 = exact match.")]
    created_at: Annotated[str, Field(exclude=True)]  # for recall, as the next
    updated_at: Annotated[str, Field(exclude=True)]


@dataclass(frozen=True)
class MemoryHits:
    results: list[MemoryHit]
    total_searched: int  # memories in the searched scopes after the tag filter
    truncated: Annotated[str | None, LEFT_OUT] = None  # what to call for the results left out, if any
    notice: Annotated[str | None, LEFT_OUT] = None


@dataclass(frozen=True)
class Pruned:
    pruned_count: int


@dataclass(frozen=True)
class Joined:
    session_id: str


def uri_of(key: str) -> str:
    return f"{VAULT_URI}/{quote(key, safe='')}"


def session_uri(session_id: str) -> str:
    return f"memory://session/{quote(session_id, safe='')}"
