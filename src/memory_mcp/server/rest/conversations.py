"""Conversations that hooks have kept, and what hooks put in front of models. POST /api/memories/delete deletes them."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.conversations.model import (
    Conversation,
    ConversationCursor,
    ConversationFilter,
    GivenMemories,
    GivenMemory,
)
from memory_mcp.errors import AppError
from memory_mcp.families.notes.addresses import CONVERSATION, conversation_ref, note_uri
from memory_mcp.families.notes.model import Note
from memory_mcp.families.recall.references import open_reference
from memory_mcp.hooks import records
from memory_mcp.hooks.events import MOMENTS
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.conversation_shapes import (
    ConversationListed,
    ConversationShown,
    ConversationsPage,
    GivenMemoryShown,
    GivenPage,
    GivenShown,
    HookCallShown,
    HookCallsShown,
    MessageShown,
)
from memory_mcp.server.rest.lists import TEXT, Day, span
from memory_mcp.server.rest.routes import MAX_ID, user_router
from memory_mcp.server.rest.shapes import MAX_REF_CHARS, Named
from memory_mcp.server.rest.tools import session_of

CURSOR = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z,[^\x00]+$"

OneConversation = Annotated[
    str, Query(description="Such as conversation:claude-code:ID.", max_length=MAX_REF_CHARS, pattern=TEXT)
]


class ConversationsFilter(BaseModel):
    """Which conversations."""

    model_config = ConfigDict(extra="ignore")

    project: str | None = Field(None, max_length=128, pattern=TEXT)
    client: str | None = Field(None, description="Such as claude-code.", max_length=128, pattern=TEXT)
    since: Day | None = Field(None, description="With a message on this day or later, in UTC.")
    until: Day | None = Field(None, description="Whose last message was written on this day or before.")
    after: Annotated[str, Field(pattern=CURSOR, max_length=400)] | None = Field(
        None, description="`next` of the page before."
    )
    limit: int = Field(50, ge=1, le=200)


@user_router.get("/conversations", responses=refusals(422))
def list_conversations(
    app: TheApp, person: ThePerson, wish: Annotated[ConversationsFilter, Query()]
) -> ConversationsPage:
    """The conversations that hooks have kept, the last first, and how many there are of each project and client."""
    require(person, "notes", Scope.READ)
    reader = app.conversations.reader
    chosen = ConversationFilter(wish.project, wish.client, span(wish.since, wish.until))
    after = ConversationCursor(*wish.after.split(",", 1)) if wish.after else None
    found, following = reader.page(person, chosen, wish.limit, after)
    projects, clients = reader.counts(person)
    return ConversationsPage(
        conversations=_listed(app, person, found),
        projects=[Named(name=name, count=count) for name, count in projects.items()],
        clients=[Named(name=name, count=count) for name, count in clients.items()],
        next=f"{following.last_at},{following.id}" if following else None,
    )


@user_router.get("/conversations/messages", responses=refusals(404, 422))
def open_conversation(
    app: TheApp,
    person: ThePerson,
    ref: OneConversation,
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="`next` of the page before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> ConversationShown:
    """A conversation with its messages, in their order."""
    require(person, "notes", Scope.READ)
    found = app.conversations.reader.get(person, ref)
    messages, following = app.conversations.reader.messages(person, found, after, limit)
    [listed] = _listed(app, person, [found])
    return ConversationShown(conversation=listed, messages=list(map(_message, messages)), next=following)


@user_router.get("/given", responses=refusals(404, 422))
def list_given(
    app: TheApp,
    person: ThePerson,
    ref: Annotated[
        str | None, Query(description="Of one conversation instead of all.", max_length=MAX_REF_CHARS, pattern=TEXT)
    ] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> GivenPage:
    """What hooks put in front of models, when and why; the last first."""
    require(person, "notes", Scope.READ)
    conversation = ref.removeprefix(CONVERSATION) if ref is not None else None
    found, following = app.conversations.reader.given(person, conversation, limit, before)
    return GivenPage(given=[_given(app, person, one) for one in found], next=following)


@user_router.get("/hooks/calls", responses=refusals(422))
def list_hook_calls(app: TheApp, person: ThePerson, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> HookCallsShown:
    """What the last calls of hooks did, and why, as `memory-mcp hook --explain` shows it; only for the local user."""
    person.require(Scope.READ)
    found = records.last(str(app.settings.data_dir), limit) if person.user == LOCAL_USER else []
    return HookCallsShown(calls=[HookCallShown.model_validate(one) for one in found])


def _listed(app: App, person: Caller, found: list[Conversation]) -> list[ConversationListed]:
    given = app.conversations.reader.given_counts(person, [one.id for one in found])
    return [
        ConversationListed.model_validate(vars(one) | {"ref": one.ref, "given": given.get(one.id, 0)}) for one in found
    ]


def _message(note: Note) -> MessageShown:
    return MessageShown(
        ref=note_uri(note.id),
        role=note.metadata["role"],
        text=note.content,
        at=note.created_at,
        superseded_by=note_uri(note.superseded_by) if note.superseded_by else None,
    )


def _given(app: App, person: Caller, call: GivenMemories) -> GivenShown:
    return GivenShown(
        at=call.at,
        conversation=conversation_ref(call.conversation),
        client=call.conversation.partition(":")[0],
        project=call.project,
        event=call.event,
        moment=MOMENTS.get(call.event, "prompt"),
        memories=[_memory(app, person, one) for one in call.memories],
    )


def _memory(app: App, person: Caller, given: GivenMemory) -> GivenMemoryShown:
    try:
        _, opened = open_reference(app.opened, person, session_of(app, person), given.ref)
        title = opened.title
    except AppError:  # deleted since
        title = None
    return GivenMemoryShown(ref=given.ref, why=given.why, title=title)
