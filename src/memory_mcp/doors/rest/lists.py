"""Lists for people: notes by what is known of them, and what was written last."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from memory_mcp.app import App
from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import precise_stamp
from memory_mcp.doors.rest.answering import refusals
from memory_mcp.doors.rest.people import TheApp, ThePerson
from memory_mcp.doors.rest.routes import LARGEST_ID, mine
from memory_mcp.doors.rest.shapes import FamilyName, NoteListed, NotesPage, Unread, WriteShown, WritesShown
from memory_mcp.errors import Forbidden, Invalid
from memory_mcp.notes.model import Filter, Place, Question, Source
from memory_mcp.recall.latest import latest

AFTER = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z),(\d{1,18})")
TEXT = r"^[^\x00]*$"


class Wish(BaseModel):
    """Which notes."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field("", description="Words or a question.", max_length=10_000, pattern=TEXT)
    namespace: str | None = Field(None, max_length=128, pattern=TEXT)
    folder: str | None = Field(None, max_length=512, pattern=TEXT)
    tag: list[str] = Field([], description="All of these.", max_length=20)
    source: Source | None = None
    min_importance: float = Field(0.0, ge=0, le=1)
    since: date | None = Field(None, description="Written first on this day or later, in UTC.")
    until: date | None = Field(None, description="Written first on this day or before.")
    archived: bool = Field(False, description="Those that were deleted and can be brought back, instead of all others.")
    after: str = Field("", description="`next` of the page before.", max_length=60)
    limit: int = Field(50, ge=1, le=100)

    def filter(self) -> Filter:
        return Filter(
            namespace=self.namespace,
            folder=self.folder,
            tags=tuple(self.tag),
            min_importance=self.min_importance,
            source=self.source,
            created_after=_start(self.since) if self.since else None,
            created_before=_end(self.until) if self.until else None,
        )


def _start(day: date) -> str:
    return precise_stamp(datetime.combine(day, time(), UTC))


def _end(day: date) -> str | None:
    """The start of the next day; there is none after the last."""
    return _start(day + timedelta(days=1)) if day < date.max else None


@mine.get("/notes", responses=refusals(422))
def list_notes(app: TheApp, person: ThePerson, wish: Annotated[Wish, Query()]) -> NotesPage:
    """Your notes that fit all that is asked for."""
    _require_notes(app, person)
    words = wish.q.strip()
    if words and not wish.archived:
        hits, _ = app.notes.hits(person, Question(words, wish.filter(), "hybrid", wish.limit))
        return NotesPage(notes=[NoteListed.model_validate(vars(hit) | NOT_KNOWN) for hit in hits], next=None)
    place = _place(wish.after) if wish.after else None
    found, following = app.notes.page(person, wish.filter(), words, place, wish.limit, archived=wish.archived)
    return NotesPage(
        notes=[NoteListed.model_validate(vars(note)) for note in found],
        next=f"{following.updated_at},{following.seq}" if following else None,
    )


NOT_KNOWN = {"namespace": "", "updated_at": None}  # of what a search finds


@mine.get("/recent", responses=refusals(422))
def recent_writes(
    app: TheApp,
    person: ThePerson,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    family: Annotated[FamilyName | None, Query(description="One instead of all.")] = None,
) -> WritesShown:
    """What was written last, in every family."""
    person.require(Scope.READ)
    found = latest(app, person, limit, family)
    return WritesShown(
        writes=[WriteShown(family=family, **vars(one)) for family, one in found.writes],
        incomplete=[Unread(family=family, error=why) for family, why in found.incomplete.items()],
    )


def _require_notes(app: App, person: Caller) -> None:
    person.require(Scope.READ)
    if "notes" not in person.families:
        raise Forbidden("This server keeps no notes: --families leaves them out.")


def _place(after: str) -> Place:
    found = AFTER.fullmatch(after)
    if found is None or int(found[2]) > LARGEST_ID:
        raise Invalid("after: this is no `next` of a page of notes.", field="after")
    return Place(found[1], int(found[2]))
