from typing import Annotated

from pydantic import Field

from memory_mcp.caller import Scope
from memory_mcp.clock import instant, stamp
from memory_mcp.errors import Invalid
from memory_mcp.families.family import READABLE, Arguments, Call
from memory_mcp.families.vault.family import vault as vault
from memory_mcp.families.vault.model import (
    Committed,
    Joined,
    MemoryHits,
    MemoryQuery,
    MemoryScope,
    MemoryScopes,
    NewMemory,
    Pruned,
    PruneFilter,
)
from memory_mcp.families.vault.operations import Vault
from memory_mcp.families.vault.references import KEY, NEW_KEY

Text = Annotated[str, Field(max_length=1024 * 1024)]
Key = Annotated[str, Field(min_length=1, max_length=512), KEY]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=64)]
NewKey = Annotated[str, Field(min_length=1, max_length=512), NEW_KEY, READABLE]
NewTags = Annotated[list[Annotated[str, Field(min_length=1, max_length=128), READABLE]], Field(max_length=64)]
Vector = Annotated[list[float], Field(max_length=65536)]
"""Its exact length is a setting, so the operation checks it and says what it should be."""


class CommitMemory(Arguments):
    scope: MemoryScope
    key: NewKey = Field(description="Unique identifier for this memory within its scope.")
    content: Text = Field(min_length=1, description="The memory content to store.")
    tags: NewTags = Field([], description="Categorization tags for retrieval.")
    embedding: Vector | None = Field(None, description="Optional pre-computed embedding vector (float32[D]).")


@vault.tool(
    CommitMemory,
    answers=Committed,
    title="Keep a fact",
    needs=Scope.WRITE,
    destructive=True,  # it overwrites
    idempotent=True,
    capability="CommitMemory",
)
def commit_memory(call: Call[Vault], arguments: CommitMemory) -> Committed:
    """Store a memory entry in the session (volatile) or vault (persistent) scope. Upserts on key collision."""
    embedding = None if arguments.embedding is None else tuple(arguments.embedding)
    memory = NewMemory(arguments.scope, arguments.key, arguments.content, _each_once(arguments.tags), embedding)
    return call.operations.commit(call.caller, call.session, memory)


class SearchMemories(Arguments):
    query: Text = Field(description="Full-text search query (FTS5 syntax supported). May be empty with tags.")
    scope: MemoryScopes = Field("all", description="Which scope(s) to search.")
    tags: Tags = Field([], description="Filter: only return memories with ALL specified tags.")
    query_embedding: Vector | None = Field(
        None, description="Optional: embedding of the query for semantic re-ranking."
    )
    limit: int = Field(10, ge=1, le=500, description="Max results to return.")


@vault.tool(
    SearchMemories,
    answers=MemoryHits,
    title="Search facts",
    needs=Scope.READ,
    idempotent=True,
    capability="SearchMemory",
)
def search_memories(call: Call[Vault], arguments: SearchMemories) -> MemoryHits:
    """Search memories by text query, tags, or both. Returns ranked results. Semantic ranking used if embeddings are
    present and a query_embedding is provided."""
    embedding = None if arguments.query_embedding is None else tuple(arguments.query_embedding)
    question = MemoryQuery(
        arguments.query.strip(), arguments.scope, _each_once(arguments.tags), embedding, arguments.limit
    )
    return call.operations.search(call.caller, call.session, question)


class PruneMemory(Arguments):
    scope: MemoryScopes
    key: Key | None = Field(None, description="If provided, delete only this key (within scope).")
    older_than: str | None = Field(
        None,
        max_length=64,
        description="ISO 8601 datetime (UTC unless it names a zone). Delete entries created before it.",
    )
    tags: Tags = Field([], description="Delete entries matching ALL these tags.")


@vault.tool(
    PruneMemory,
    answers=Pruned,
    title="Delete facts",
    needs=Scope.DELETE,
    destructive=True,
    idempotent=True,
    capability="PruneMemory",
)
def prune_memory(call: Call[Vault], arguments: PruneMemory) -> Pruned:
    """Delete memory entries. Can target a specific key, or bulk-delete by age, tags or scope; filters combine with
    AND. The vault is never pruned without a filter."""
    filters = PruneFilter(arguments.scope, arguments.key, _moment(arguments.older_than), _each_once(arguments.tags))
    return call.operations.prune(call.caller, call.session, filters)


class SetSessionId(Arguments):
    session_id: str = Field(min_length=1, max_length=128)


@vault.tool(
    SetSessionId,
    answers=Joined,
    title="Name this session",
    needs=Scope.WRITE,
    idempotent=True,
    changes_session=True,
    capability="CommitMemory",
)
def set_session_id(call: Call[Vault], arguments: SetSessionId) -> Joined:
    """Name the session of this connection. Session memories are kept under this name and seen by every connection
    that uses it."""
    return Joined(call.operations.name_session(call.session, arguments.session_id).id)


def _each_once(tags: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))


def _moment(text: str | None) -> str | None:
    try:
        return None if text is None else stamp(instant(text))
    except ValueError as exc:
        raise Invalid(
            "older_than must be an ISO 8601 datetime such as 2026-04-27T14:00:00Z.", field="older_than"
        ) from exc
