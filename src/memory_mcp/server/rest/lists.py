"""Lists for pages of the web app, beside the tools: notes by filter, the latest writes, a project's picture."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from fastapi import Path as PathParameter
from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memory_mcp.app import App
from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import precise_stamp
from memory_mcp.errors import AppError
from memory_mcp.families.family import LastWrite
from memory_mcp.families.notes.list_model import ListedPart, Order
from memory_mcp.families.notes.model import Filter, NoteHit, NoteQuery, NoteState, Source, UpdatedCursor
from memory_mcp.families.notes.review import COUNTED_STATES
from memory_mcp.families.recall.origins import origins_of
from memory_mcp.families.recall.references import family_of, open_reference
from memory_mcp.families.references import Opened
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.rest.shapes import (
    EntityDrawn,
    FacetsShown,
    FamilyName,
    NoteListed,
    NotesPage,
    ProjectDrawn,
    RelationDrawn,
    TitlesShown,
    Unread,
    WriteShown,
    WritesShown,
)
from memory_mcp.server.rest.tools import session_of
from memory_mcp.services.search import snippets
from memory_mcp.text.time_spans import Span

AFTER = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z),([0-9]{1,18})$"
MAX_OFFSET = 1_000_000
TEXT = r"^[^\x00]*$"


def _written_out(value: object) -> object:
    """A day in ISO 8601; pydantic alone would also accept seconds since 1970."""
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        raise ValueError("a day is written as 2026-01-31")
    return value


Day = Annotated[date, BeforeValidator(_written_out)]


class NotesFilter(BaseModel):
    """Which notes."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field("", description="Words or a question.", max_length=10_000, pattern=TEXT)
    title: str | None = Field(
        None, description="The whole title, ignoring case, as in [[Title]].", max_length=1000, pattern=TEXT
    )
    namespace: str | None = Field(None, max_length=128, pattern=TEXT)
    folder: str | None = Field(None, max_length=512, pattern=TEXT)
    tag: list[str] = Field([], description="All of these.", max_length=20)
    client: str | None = Field(None, description="Who wrote it first.", max_length=128, pattern=TEXT)
    source: Source | None = None
    min_importance: float = Field(0.0, ge=0, le=1)
    since: Day | None = Field(None, description="Written first on this day or later, in UTC.")
    until: Day | None = Field(None, description="Written first on this day or before.")
    state: NoteState | None = Field(
        None, description="Only those that a newer note supersedes, that have expired, or that have no vector."
    )
    archived: bool = Field(False, description="Only deleted notes that can be restored, instead of all others.")
    id: list[Annotated[str, Field(max_length=64, pattern=TEXT)]] = Field(
        [], description="Only some of these.", max_length=100
    )

    def filter(self) -> Filter:
        return Filter(
            namespace=self.namespace,
            folder=self.folder,
            tags=tuple(self.tag),
            min_importance=self.min_importance,
            source=self.source,
            created=span(self.since, self.until),
            title=self.title,
            client=self.client,
            state=self.state,
            excluded_source="hook" if self.state in COUNTED_STATES else None,
            ids=tuple(self.id),
        )


class NotesPart(NotesFilter):
    """Which of them, and in which order."""

    order: Order = Field("updated", description="Of a list. A search has the best match first.")
    after: Annotated[str, Field(pattern=AFTER)] | None = Field(
        None, description="`next` of the page before, in the order `updated`."
    )
    offset: int = Field(0, description="How many to pass over.", ge=0, le=MAX_OFFSET)
    limit: int = Field(50, ge=1, le=100)


def span(since: date | None, until: date | None) -> Span:
    """Both days included."""
    return Span(_start(since) if since else None, _end(until) if until else None)


def _start(day: date) -> str:
    return precise_stamp(datetime.combine(day, time(), UTC))


def _end(day: date) -> str | None:
    """The start of the next day; there is none after the last."""
    return _start(day + timedelta(days=1)) if day < date.max else None


@user_router.get("/notes", responses=refusals(422))
def list_notes(app: TheApp, person: ThePerson, wanted: Annotated[NotesPart, Query()]) -> NotesPage:
    """Your notes that match the filter."""
    require(person, "notes", Scope.READ)
    words = wanted.q.strip()
    if words and not wanted.archived:
        hits, _ = app.notes.reader.hits(
            person, NoteQuery(words, wanted.filter(), "hybrid", wanted.limit, wanted.offset)
        )
        return NotesPage(notes=[_hit_listed(hit) for hit in hits], next=None)
    after = read_cursor(wanted.after) if wanted.after else None
    part = ListedPart(wanted.limit, after, wanted.offset, wanted.order, words, wanted.archived)
    found, following = app.notes.reader.page(person, wanted.filter(), part)
    return NotesPage(
        notes=[NoteListed.model_validate(vars(note)) for note in found],
        next=write_cursor(following) if following else None,
    )


def _hit_listed(hit: NoteHit) -> NoteListed:
    parts = hit.score_breakdown
    why = "its words" if parts and parts.lexical else "its meaning"
    return NoteListed.model_validate({**vars(hit), "why": why})


@user_router.get("/notes/titles", responses=refusals(422))
def note_titles(
    app: TheApp,
    person: ThePerson,
    q: Annotated[str, Query(description="A part of the title.", max_length=300, pattern=TEXT)] = "",
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
) -> TitlesShown:
    """Titles of your notes that start with a text, then those that contain it: for a link that is being written."""
    require(person, "notes", Scope.READ)
    return TitlesShown(titles=app.notes.reader.titles_like(person, q, limit))


@user_router.get("/notes/facets", responses=refusals(422))
def note_facets(app: TheApp, person: ThePerson, wanted: Annotated[NotesFilter, Query()]) -> FacetsShown:
    """How many notes match the filter, by their properties. Words are counted only among deleted notes: a search ranks
    all notes, and its hits are counted by their ids."""
    require(person, "notes", Scope.READ)
    words = wanted.q.strip() if wanted.archived else ""
    return FacetsShown.model_validate(
        vars(app.notes.reader.facets(person, wanted.filter(), words, is_archived=wanted.archived))
    )


@user_router.get("/recent", responses=refusals(422))
def recent_writes(
    app: TheApp,
    person: ThePerson,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to pass over.")] = 0,
    family: Annotated[FamilyName | None, Query(description="One instead of all.")] = None,
    text: Annotated[bool, Query(description="Also the beginning of each, and who wrote it.")] = False,
) -> WritesShown:
    """The latest writes, in every family."""
    person.require(Scope.READ)
    found = app.latest(person, offset + limit, family)
    shown = found.writes[offset:]
    return WritesShown(
        writes=_with_texts(app, person, shown) if text else [_write_shown(name, one) for name, one in shown],
        incomplete=[Unread(family=family, error=why) for family, why in found.incomplete.items()],
    )


def _with_texts(app: App, person: Caller, writes: Sequence[tuple[str, LastWrite]]) -> list[WriteShown]:
    refs: dict[str, list[str]] = {}
    for family, write in writes:
        refs.setdefault(family, []).append(write.ref)
    origins = origins_of(app.opened, person, refs)
    return [
        _write_shown(family, write, _opened(app, person, write.ref), origins.get((family, write.ref)))
        for family, write in writes
    ]


def _write_shown(family: str, write: LastWrite, opened: Opened | None = None, origin: str | None = None) -> WriteShown:
    text = snippets.beginning(opened.content) if opened else ""
    author = opened.details if opened and family == "notes" else {}
    return WriteShown(
        family=family,
        **vars(write),
        text=text,
        client=author.get("client"),
        source=author.get("source"),
        namespace=author.get("namespace"),
        origin=origin,
    )


def _opened(app: App, person: Caller, ref: str) -> Opened | None:
    """None for a portal, whose engine would have to start, and for what was deleted meanwhile."""
    _, references = family_of(app.opened, person, ref)
    if references.edits is None:
        return None
    try:
        return open_reference(app.opened, person, session_of(app, person), ref)[1]
    except AppError:
        return None


@user_router.get("/graph/{project:path}", responses=refusals(404, 422))
def draw_project(
    project: Annotated[str, PathParameter(max_length=512)],
    app: TheApp,
    person: ThePerson,
    limit: Annotated[int, Query(ge=1, le=3000)] = 500,
    around: Annotated[str | None, Query(description="The name of an entity.", max_length=512)] = None,
) -> ProjectDrawn:
    """The best connected entities of a project, or one and its neighbors, and the relations among them."""
    require(person, "graph", Scope.READ)
    view = app.graph.view(person, project, limit, around)
    return ProjectDrawn(
        nodes=[EntityDrawn(name=name, type=kind, degree=degree) for name, kind, degree in view.nodes],
        edges=[RelationDrawn(source=source, target=target, type=kind) for source, target, kind in view.edges],
        total=view.total,
    )


def read_cursor(after: str) -> UpdatedCursor:
    updated_at, seq = after.split(",")
    return UpdatedCursor(updated_at, int(seq))


def write_cursor(cursor: UpdatedCursor) -> str:
    return f"{cursor.updated_at},{cursor.seq}"
