"""The one tool that searches every family."""

from typing import Annotated, Literal

from pydantic import Field

from memory_mcp.caller import Scope
from memory_mcp.families.family import Arguments, Call, Family, Whole
from memory_mcp.families.recall.model import Recalled, RecallQuery

recall = Family(
    name="recall",
    purpose="one search over all of the above; start here when you do not know where something is kept",
    errors="tool-result",
    is_confinable=True,
    uri_prefixes=(),
)

FamilyName = Literal["vault", "notes", "stores", "graph", "portals"]


class RecallMemories(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=10_000)] = Field(
        description="What to look for, in your words."
    )
    families: Annotated[list[FamilyName], Field(max_length=5)] = Field([], description="Default: all.")
    tags: Annotated[list[str], Field(max_length=50)] = Field([], description="Only what has all of these.")
    limit: Whole = Field(10, ge=1, le=100)


@recall.tool(RecallMemories, answers=Recalled, title="Recall from everywhere", needs=Scope.READ, idempotent=True)
def recall_memories(call: Call, asked: RecallMemories) -> Recalled:
    """Search everything kept here, in every family at once, by words and by meaning. Each hit's ref opens it."""
    question = RecallQuery(asked.query, tuple(asked.families), tuple(asked.tags), asked.limit)
    return call.app.recall.recall(call.caller, call.session, question)
