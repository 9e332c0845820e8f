"""The tool that searches every family."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from memory_mcp.caller import Scope
from memory_mcp.families.family import Arguments, Call, Family
from memory_mcp.families.recall.model import Recalled, RecallQuery
from memory_mcp.families.recall.operations import Recall

Moment = Annotated[str, Field(min_length=1, max_length=64)]


class RecallMemories(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=10_000)] = Field(
        description="What to look for, in your words."
    )
    families: list[str] = Field([], description="Default: all.")
    tags: Annotated[list[str], Field(max_length=50)] = Field([], description="Only what has all of these.")
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


def recall_memories(call: Call[Recall], arguments: RecallMemories) -> Recalled:
    """Search everything kept here, in every family at once, by words and by meaning. Each hit's ref opens it."""
    created = call.operations.times.span(arguments.after, arguments.before)
    query = RecallQuery(arguments.query, tuple(arguments.families), tuple(arguments.tags), arguments.limit, created)
    return call.operations.recall(call.caller, call.session, query)
