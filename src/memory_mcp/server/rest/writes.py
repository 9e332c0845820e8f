"""Who wrote what, and undoing it as a group, as `memory-mcp writes` does."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict, JsonValue

from memory_mcp.caller import WriteSource
from memory_mcp.errors import Invalid
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.write_review import ReviewedGroup, ReviewedUndo, ReviewedWrite, ReviewQuery, UndoReport
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals
from memory_mcp.server.rest.lists import TEXT
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.rest.shapes import RequestBody
from memory_mcp.server.rest.tools import WEB_APP
from memory_mcp.services.access import AuditEvent
from memory_mcp.services.write_journal import Action, WriteQuery, Writer

if TYPE_CHECKING:
    JournaledFamily = str
else:
    JournaledFamily = Literal[tuple(name for name, family in FAMILIES.items() if family.journals)]

MAX_IDS = 1000
STAMP = r"^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$"  # as the journal has them
ID = r"^[a-z]+:([^\x00]*:)?[0-9]{1,18}$"
_FIELDS: dict[str, JsonDict] = {
    **{name: {"type": "string"} for name in ("client", "key", "source", "since", "until", "family", "undo_id")},
    **{name: {"const": True} for name in ("unnamed", "keyless")},
    "ids": {"type": "array"},
}
_CHOICES: list[JsonValue] = [{"required": [name], "properties": {name: value}} for name, value in _FIELDS.items()]
"""One of the fields must choose something."""


class ChosenWrites(BaseModel):
    """Which writes: those that match all fields."""

    client: str | None = Field(
        None, description="The name that the program gave itself.", min_length=1, max_length=1000, pattern=TEXT
    )
    unnamed: bool = Field(False, description="Only of programs that gave no name, instead of `client`.")
    key: str | None = Field(
        None, description="The id, the name or the beginning of a key.", min_length=1, max_length=1000, pattern=TEXT
    )
    keyless: bool = Field(False, description="Only what was written without a key, instead of `key`.")
    source: WriteSource | None = None
    since: str | None = Field(
        None, description="From this time on, in UTC, such as 2026-05-01T00:00:00.000Z.", pattern=STAMP
    )
    until: str | None = Field(None, description="Before this time.", pattern=STAMP)
    family: JournaledFamily | None = None
    undo_id: str | None = Field(None, description="The writes of this undo.", min_length=1, max_length=64, pattern=TEXT)

    @property
    def is_everything(self) -> bool:
        return not any(self.model_dump().values())

    def query(self, ids: list[str] | None = None) -> ReviewQuery:
        client, key = "" if self.unnamed else self.client, "" if self.keyless else self.key
        return ReviewQuery(
            WriteQuery(client, key, self.source, self.since, self.until, self.undo_id),
            None if self.family is None else frozenset({self.family}),
            None if ids is None else frozenset(ids),
        )


class WritesFilter(ChosenWrites):
    model_config = ConfigDict(extra="ignore")


class WritesPart(WritesFilter):
    limit: int = Field(100, ge=1, le=1000)


class WritesToUndo(ChosenWrites, RequestBody):
    model_config = ConfigDict(json_schema_extra={"anyOf": _CHOICES})

    ids: list[Annotated[str, Field(max_length=200, pattern=ID)]] | None = Field(
        None, description="Single writes, by their `id`.", min_length=1, max_length=MAX_IDS
    )

    def chosen(self) -> ReviewQuery:
        """Raises Invalid if nothing was chosen."""
        if self.is_everything:
            raise Invalid("Choose writes: by client, key, source, since, until, family, undo_id or ids.")
        return self.query(self.ids)


class JournalEntry(BaseModel):
    id: str = Field(description="For POST /api/journal/undo.")
    family: JournaledFamily
    at: str
    by: str = Field(description="The writer in a few words, such as `cursor with key laptop`.")
    source: WriteSource
    client: str
    key_id: str | None
    key_name: str | None
    session_id: str | None
    action: Action
    rows: int | None = Field(description="Of a table: how many rows were added or, below 0, deleted.")
    title: str
    ref: str | None = Field(description="GET /api/open opens it; null if it no longer exists.")
    undone: bool
    undo_id: str | None = Field(description="Of the undo that wrote it.")


class JournalPage(BaseModel):
    writes: list[JournalEntry] = Field(description="The last first.")
    incomplete: dict[str, str] = Field(description="Families and projects that cannot be read, and why.")


class JournalGroup(BaseModel):
    day: str = Field(description="In UTC.")
    by: str
    source: WriteSource
    client: str
    key_id: str | None
    key_name: str | None
    count: int
    families: dict[str, int] = Field(description="How many writes to each.")
    first_at: str
    last_at: str


class JournalGroups(BaseModel):
    groups: list[JournalGroup] = Field(description="A writer on a day, the last first.")
    incomplete: dict[str, str]


class UndoneMemory(BaseModel):
    """What an undo does, or did, with one memory."""

    family: JournaledFamily
    title: str
    ref: str | None
    outcome: Literal["delete", "restore", "left"]
    rows: int | None = Field(description="Of a table: how many rows are deleted or restored. The table itself stays.")
    why: str | None = Field(description="Why it is left alone, or that this cannot be taken back.")


class WritesUndo(BaseModel):
    undo_id: str | None = Field(description="Send it to POST /api/journal/undo to take the undo back; null: a preview.")
    deleted: int
    restored: int
    left: int
    rows_deleted: int = Field(description="Of tables. They are not in `deleted`.")
    rows_restored: int
    items: list[UndoneMemory] = Field(description="The first 1,000.")
    incomplete: dict[str, str]


@user_router.get("/journal", responses=refusals(422))
def list_writes(app: TheApp, person: ThePerson, wanted: Annotated[WritesPart, Query()]) -> JournalPage:
    """What was written to your memory, when and by whom."""
    page = app.write_review.writes(person, wanted.query(), wanted.limit)
    return JournalPage(writes=list(map(_entry, page.writes)), incomplete=page.incomplete)


@user_router.get("/journal/groups", responses=refusals(422))
def group_writes(app: TheApp, person: ThePerson, wanted: Annotated[WritesFilter, Query()]) -> JournalGroups:
    """How much each writer wrote on each day."""
    page = app.write_review.groups(person, wanted.query())
    return JournalGroups(groups=list(map(_group, page.groups)), incomplete=page.incomplete)


@user_router.post("/journal/preview", responses=refusals(413, 422))
def preview_undo(body: WritesToUndo, app: TheApp, person: ThePerson) -> WritesUndo:
    """What POST /api/journal/undo would do now. Nothing is changed."""
    return _report(app.write_review.preview(person, body.chosen()))


@user_router.post("/journal/undo", responses=refusals(404, 413, 422))
def undo_writes(body: WritesToUndo, app: TheApp, person: ThePerson) -> WritesUndo:
    """Undo writes: new memories and rows are deleted, changed and deleted memories get their former state. What others
    changed later is left alone. The answer's `undo_id` takes the undo back."""
    report = app.write_review.undo(person, body.chosen())
    if not report.is_empty:
        names = ("deleted", "restored", "rows_deleted", "rows_restored", "undo_id")
        counts = {name: getattr(report, name) for name in names}
        details = {"arguments": body.model_dump(mode="json", exclude_none=True, exclude={"ids"}), **counts}
        app.access.audit.record(person.user, AuditEvent("writes_undone", client=WEB_APP, ip=person.ip, details=details))
    return _report(report)


def _entry(one: ReviewedWrite) -> JournalEntry:
    record = one.record
    return JournalEntry.model_validate(
        {
            **vars(record.writer),
            "id": one.id,
            "family": one.family,
            "at": record.at,
            "by": str(record.writer),
            "action": record.action,
            "rows": record.rows,
            "title": one.title,
            "ref": one.ref,
            "undone": one.is_undone,
            "undo_id": record.undo_id,
        }
    )


def _group(one: ReviewedGroup) -> JournalGroup:
    group = one.group
    writer = Writer(group.source, group.client, group.key_id, group.key_name)
    return JournalGroup.model_validate({**vars(group), "by": str(writer), "families": one.families})


def _report(report: UndoReport) -> WritesUndo:
    return WritesUndo.model_validate({**vars(report), "items": list(map(_memory_undo, report.items))})


def _memory_undo(one: ReviewedUndo) -> UndoneMemory:
    undo = one.undo
    return UndoneMemory(
        family=one.family, title=one.title, ref=one.ref, outcome=undo.outcome, rows=undo.rows, why=undo.why
    )
