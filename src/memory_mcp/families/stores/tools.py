from typing import Annotated

from pydantic import Field

from memory_mcp.caller import Scope
from memory_mcp.clock import last_instant, short_stamp
from memory_mcp.errors import Invalid
from memory_mcp.families.family import READABLE, Arguments, Call
from memory_mcp.families.stores.family import stores as stores
from memory_mcp.families.stores.model import (
    Added,
    Category,
    FileChange,
    Metadata,
    Moved,
    PrunedStore,
    RecentFiles,
    ReindexedStore,
    Removed,
    StoreMemory,
    Updated,
)
from memory_mcp.families.stores.operations import Stores
from memory_mcp.families.stores.references import NEW_PATH, PATH, STORE

StoreName = Annotated[str, Field(min_length=1, max_length=64), STORE]
Path = Annotated[str, Field(min_length=1, max_length=1024), PATH]
NewPath = Annotated[str, Field(min_length=1, max_length=1024), NEW_PATH]
Text = Annotated[str, Field(min_length=1, max_length=1024 * 1024)]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=128), READABLE]], Field(max_length=64)]
Citations = Annotated[list[Annotated[str, Field(min_length=1, max_length=2048)]], Field(max_length=100)]
Moment = Annotated[str, Field(max_length=64)]


class InStore(Arguments):
    store: StoreName


class AtPath(InStore):
    path: Path


class AddMemory(InStore):
    path: NewPath = Field(description="category/name, without '.md'.")
    content: Text = Field(description="Markdown.")
    tags: Tags = Field([])
    expires_at: Moment | None = Field(None, description="ISO 8601; a date alone includes that day.")
    citations: Citations = Field([], description="Sources: file:line, URLs.")


@stores.tool(AddMemory, answers=Added, title="Add a store file", needs=Scope.WRITE)
def add_memory(call: Call[Stores], arguments: AddMemory) -> Added:
    """Store file: write new markdown that people edit, too. A missing store or category is made. Linked notes:
    memory_create."""
    metadata = Metadata(tags=arguments.tags, expires_at=_moment(arguments.expires_at), citations=arguments.citations)
    return call.operations.add(call.caller, arguments.store, arguments.path, arguments.content, metadata)


class GetMemory(AtPath):
    include_expired: bool = False


@stores.tool(GetMemory, answers=StoreMemory, title="Read a store file", needs=Scope.READ, idempotent=True)
def get_memory(call: Call[Stores], arguments: GetMemory) -> StoreMemory:
    """Store file: read it with its metadata."""
    return call.operations.get(call.caller, arguments.store, arguments.path, include_expired=arguments.include_expired)


class UpdateMemory(AtPath):
    content: Text | None = None
    tags: Tags | None = Field(None, description="Replaces all.")
    expires_at: Moment | None = None
    clear_expiry: bool = False
    citations: Citations | None = Field(None, description="Replaces all.")


@stores.tool(UpdateMemory, answers=Updated, title="Update a store file", needs=Scope.WRITE, idempotent=True)
def update_memory(call: Call[Stores], arguments: UpdateMemory) -> Updated:
    """Store file: change its content or metadata; what is not given stays."""
    change = FileChange(
        arguments.content, arguments.tags, _moment(arguments.expires_at), arguments.clear_expiry, arguments.citations
    )
    return call.operations.update(call.caller, arguments.store, arguments.path, change)


@stores.tool(AtPath, answers=Removed, title="Delete a store file", needs=Scope.DELETE, destructive=True)
def remove_memory(call: Call[Stores], arguments: AtPath) -> Removed:
    """Store file: delete it."""
    return call.operations.remove(call.caller, arguments.store, arguments.path)


class MoveMemory(InStore):
    from_path: Path
    to_path: NewPath


@stores.tool(MoveMemory, answers=Moved, title="Move a store file", needs=Scope.WRITE)
def move_memory(call: Call[Stores], arguments: MoveMemory) -> Moved:
    """Store file: move or rename it."""
    return call.operations.move(call.caller, arguments.store, arguments.from_path, arguments.to_path)


class InCategory(InStore):
    category: Annotated[str, Field(max_length=1024), PATH] | None = None
    include_expired: bool = False


class ListMemories(InCategory):
    offset: int = Field(0, ge=0, le=2**53, description="Where to go on, as the answer before said.")


@stores.tool(ListMemories, answers=Category, title="List store files", needs=Scope.READ, idempotent=True)
def list_memories(call: Call[Stores], arguments: ListMemories) -> Category:
    """Store files: list a category and its subcategories; without a category, the top level."""
    return call.operations.list_category(
        call.caller, arguments.store, arguments.category, arguments.offset, include_expired=arguments.include_expired
    )


@stores.tool(
    InStore,
    answers=PrunedStore,
    title="Delete expired store files",
    needs=Scope.DELETE,
    destructive=True,
    idempotent=True,
    without_read=("store", "pruned_count"),
)
def prune_memories(call: Call[Stores], arguments: InStore) -> PrunedStore:
    """Store files: delete all expired ones of a store."""
    return call.operations.prune(call.caller, arguments.store)


@stores.tool(InStore, answers=ReindexedStore, title="Reindex a store", needs=Scope.WRITE, idempotent=True)
def reindex_store(call: Call[Stores], arguments: InStore) -> ReindexedStore:
    """Store files: rebuild the category indexes."""
    return call.operations.reindex(
        call.caller, arguments.store, lambda what, done, total: call.progress(f"{done} of {total} {what}", done, total)
    )


class RecentMemories(InCategory):
    limit: Annotated[int, Field(ge=1, le=100)] = 5


@stores.tool(RecentMemories, answers=RecentFiles, title="Recent store files", needs=Scope.READ, idempotent=True)
def cortex_get_recent_memories(call: Call[Stores], arguments: RecentMemories) -> RecentFiles:
    """Store files: those updated last, whole, from a store or a category and all below it."""
    return call.operations.recent(
        call.caller, arguments.store, arguments.category, arguments.limit, include_expired=arguments.include_expired
    )


def _moment(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return short_stamp(last_instant(text))
    except ValueError:
        raise Invalid(
            "expires_at: give a date or time as ISO 8601, like 2030-01-31T12:00:00Z.", field="expires_at"
        ) from None
