"""The bodies of answers about conversations."""

from pydantic import BaseModel, Field

from memory_mcp.conversations.model import Role
from memory_mcp.hooks.events import HookMoment
from memory_mcp.server.rest.shapes import Named


class ConversationListed(BaseModel):
    ref: str = Field(description="GET /api/conversations/messages opens it, POST /api/memories/delete deletes it.")
    client: str
    project: str
    title: str = Field(description="How its first prompt begins.")
    messages: int
    given: int = Field(description="How many memories it was given.")
    started_at: str
    last_at: str


class ConversationsPage(BaseModel):
    conversations: list[ConversationListed] = Field(description="The last first.")
    projects: list[Named] = Field(description="How many conversations each project has, whatever the filter.")
    clients: list[Named] = Field(description="The same for clients.")
    next: str | None = Field(description="Send it as `after` for more; null on the last page.")


class MessageShown(BaseModel):
    ref: str = Field(description="Of the note.")
    role: Role = Field(description="`tool` is a run of tool calls, in short.")
    text: str
    at: str
    superseded_by: str | None = Field(description="The ref of a note that replaces it.")


class ConversationShown(BaseModel):
    conversation: ConversationListed
    messages: list[MessageShown] = Field(description="In the order of the conversation.")
    next: int | None = Field(description="Send it as `after` for more; null on the last page.")


class GivenMemoryShown(BaseModel):
    ref: str
    title: str | None = Field(description="Null if it was deleted since.")
    why: str = Field(description="The heading of the digest, or how near it is to the prompt.")


class GivenShown(BaseModel):
    at: str
    conversation: str = Field(description="The ref of the conversation, which may not be kept.")
    client: str
    project: str
    event: str = Field(description="As the client names it.")
    moment: HookMoment
    memories: list[GivenMemoryShown]


class GivenPage(BaseModel):
    given: list[GivenShown] = Field(description="An entry for each call of a hook, the last first.")
    next: int | None = Field(description="Send it as `before` for older ones; null on the last page.")


class HookCallShown(BaseModel):
    at: str
    client: str | None = None
    event: str | None = None
    conversation: str | None = Field(None, description="Its id, without `conversation:`.")
    project: str | None = None
    did: str = Field("nothing", description="Such as: gave 3 memories.")
    why: str = Field("", description="Why it did nothing.")
    ms: int | None = Field(None, description="How long the client waited.")
    refs: list[str] = Field([], description="What it gave.")


class HookCallsShown(BaseModel):
    calls: list[HookCallShown] = Field(description="The last first.")
