"""What a person should look at among the notes: for the web app's Home."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from memory_mcp.caller import Scope
from memory_mcp.families.notes.model import Note
from memory_mcp.families.notes.review import PairKind
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.lists import AFTER, read_cursor, write_cursor
from memory_mcp.server.rest.routes import user_router
from memory_mcp.services.search import snippets

MAX_NOTES = 100  # compared by one request


class AttentionShown(BaseModel):
    superseded: int = Field(description="Notes that a newer note supersedes.")
    expired: int
    unembedded: int = Field(description="Notes without a vector, which are found by words only.")


class PairedNote(BaseModel):
    id: str
    title: str
    text: str = Field(description="Its beginning.")
    updated_at: str
    client: str | None


class NotePairShown(BaseModel):
    kind: PairKind
    namespace: str
    newer: PairedNote = Field(description="The one that was changed last.")
    older: PairedNote


class NotePairsShown(BaseModel):
    pairs: list[NotePairShown]
    next: str | None = Field(description="Send it as `after` to compare older notes; null if all were compared.")


@user_router.get("/notes/attention")
def notes_attention(app: TheApp, person: ThePerson) -> AttentionShown:
    """How many of your notes need attention."""
    require(person, "notes", Scope.READ)
    return AttentionShown.model_validate(vars(app.notes.review.attention(person)))


@user_router.get("/notes/pairs", responses=refusals(422))
def note_pairs(
    app: TheApp,
    person: ThePerson,
    after: Annotated[str | None, Query(pattern=AFTER, description="`next` of the answer before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_NOTES, description="How many notes to compare with the others.")] = 30,
) -> NotePairsShown:
    """Notes that say the same as another one of their namespace, or may contradict it; of those changed last."""
    require(person, "notes", Scope.READ)
    found = app.notes.review.pairs(person, read_cursor(after) if after else None, limit)
    return NotePairsShown(
        pairs=[
            NotePairShown(
                kind=pair.kind, namespace=pair.newer.namespace, newer=_paired(pair.newer), older=_paired(pair.older)
            )
            for pair in found.pairs
        ],
        next=write_cursor(found.following) if found.following else None,
    )


def _paired(note: Note) -> PairedNote:
    return PairedNote(
        id=note.id,
        title=note.title,
        text=snippets.beginning(note.content),
        updated_at=note.updated_at,
        client=note.client,
    )
