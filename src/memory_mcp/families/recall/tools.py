"""The tools that span the families."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from memory_mcp.caller import Scope
from memory_mcp.families.family import Arguments, Call, Family
from memory_mcp.families.recall.model import OpenedPage, Overview, Recalled, RecallQuery
from memory_mcp.families.recall.operations import Recall

Moment = Annotated[str, Field(min_length=1, max_length=64)]


class RecallMemories(Arguments):
    query: Annotated[str, Field(max_length=10_000)] = Field(
        description="What to look for, in your words. May be empty with after or before: newest first."
    )
    families: list[str] = Field([])
    tags: Annotated[list[str], Field(max_length=50)] = Field([])
    limit: int = Field(10, ge=1, le=100)
    after: Moment | None = Field(None, description="Created: ISO 8601 or words: last week, since Monday, in May.")
    before: Moment | None = None


def add_tools(recall: Family[Recall], families: Sequence[str]) -> None:
    """Add the tool of a recall over the families of these names."""
    name: Any = Literal.__getitem__(tuple(families))
    chosen: Any = Annotated[list.__class_getitem__(name), Field(max_length=len(families))]
    arguments = create_model(
        RecallMemories.__name__, __base__=RecallMemories, families=(chosen, RecallMemories.model_fields["families"])
    )
    offer = recall.tool(arguments, answers=Recalled, title="Recall from everywhere", needs=Scope.READ, idempotent=True)
    offer(recall_memories)
    recall.tool(RecallOpen, answers=OpenedPage, title="Open a reference", needs=Scope.READ, idempotent=True)(
        recall_open
    )
    recall.tool(RecallOverview, answers=Overview, title="Overview of everything", needs=Scope.READ, idempotent=True)(
        recall_overview
    )


def recall_memories(call: Call[Recall], arguments: RecallMemories) -> Recalled:
    """Search everything kept here, in every family at once, by words and by meaning. recall_open opens a hit's ref."""
    created = call.operations.times.span(arguments.after, arguments.before)
    query = RecallQuery(arguments.query, tuple(arguments.families), tuple(arguments.tags), arguments.limit, created)
    return call.operations.recall(call.caller, call.session, query)


class RecallOpen(Arguments):
    ref: Annotated[str, Field(min_length=1, max_length=4096)]
    offset: int = Field(0, ge=0, le=10**12, description="nextOffset")


def recall_open(call: Call[Recall], arguments: RecallOpen) -> OpenedPage:
    """Open any ref that a search, list or link gave, a page at a time. Tools that take an id take a ref, too."""
    return call.operations.open(call.caller, call.session, arguments.ref, arguments.offset)


class RecallOverview(Arguments):
    pass


def recall_overview(call: Call[Recall], arguments: RecallOverview) -> Overview:
    """What is kept here: namespaces, stores, projects and portals, with counts and last writes."""
    return call.operations.overview(call.caller)
