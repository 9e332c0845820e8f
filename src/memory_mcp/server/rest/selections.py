"""Changing several memories that a user selected, each as if it were the only one: what is refused stops no other."""

from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, Field

from memory_mcp.app import App
from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import AppError
from memory_mcp.families.notes.model import Note
from memory_mcp.families.notes.resources import NOTE
from memory_mcp.server.rest import memories
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.rest.shapes import MAX_REF_CHARS, MemoryRef, RequestBody
from memory_mcp.server.rest.tools import run_tool
from memory_mcp.text.names import MAX_NAMESPACE_CHARS, NAMESPACE_PATTERN

MAX_AT_ONCE = 200  # memories in one request


class MemoryRefs(RequestBody):
    refs: list[Annotated[str, Field(min_length=1, max_length=MAX_REF_CHARS)]] = Field(
        min_length=1, max_length=MAX_AT_ONCE
    )


class Refused(BaseModel):
    ref: str
    error: str


class MemoriesDone(BaseModel):
    refs: list[str] = Field(description="Those it was done with.")
    refused: list[Refused] = Field(description="The others, and why.")


class NotesChange(RequestBody):
    refs: list[Annotated[str, Field(min_length=1, max_length=MAX_REF_CHARS)]] = Field(
        description="Notes.", min_length=1, max_length=MAX_AT_ONCE
    )
    namespace: str | None = Field(
        None, description="Move them here.", min_length=1, max_length=MAX_NAMESPACE_CHARS, pattern=NAMESPACE_PATTERN
    )
    add_tags: list[str] = Field([], max_length=20)
    remove_tags: list[str] = Field([], max_length=20)


class FormerVersion(RequestBody):
    ref: str = Field(description="Of a note.", min_length=1, max_length=MAX_REF_CHARS)
    version: int = Field(description="The one before its last change.", ge=1, le=2**53)


class NotesChanged(MemoriesDone):
    undo: list[FormerVersion] = Field(description="Of each changed note: for `/api/notes/revert`.")


class NotesReversion(RequestBody):
    notes: list[FormerVersion] = Field(min_length=1, max_length=MAX_AT_ONCE)


@user_router.post("/memories/delete-many", responses=refusals(413, 422))
def delete_many(body: MemoryRefs, request: Request, app: TheApp, person: ThePerson) -> MemoriesDone:
    """Delete several memories. For 30 days they can be restored."""
    person.require(Scope.DELETE)
    memories.copies_of(app, person).delete_expired()
    return _each(body.refs, lambda ref: memories.delete_one(request, app, person, ref))


@user_router.post("/memories/restore-many", responses=refusals(413, 422))
def restore_many(body: MemoryRefs, request: Request, app: TheApp, person: ThePerson) -> MemoriesDone:
    """Restore what was deleted last under each of several references."""
    person.require(Scope.WRITE)
    return _each(body.refs, lambda ref: memories.restore(MemoryRef(ref=ref), request, app, person))


@user_router.post("/notes/change", responses=refusals(413, 422))
def change_notes(body: NotesChange, request: Request, app: TheApp, person: ThePerson) -> NotesChanged:
    """Tag several notes, or move them to another namespace."""
    require(person, "notes", Scope.WRITE)
    undo: list[FormerVersion] = []

    def change(ref: str) -> None:
        before = _note(app, person, ref)
        given = {"id": before.id, **body.model_dump(exclude={"refs"}, exclude_defaults=True)}
        run_tool(request, person, app.opened["notes"].family.tools["memory_update"], given)
        if _note(app, person, ref).version == before.version + 1:
            undo.append(FormerVersion(ref=ref, version=before.version))

    done = _each(body.refs, change)
    return NotesChanged(**vars(done), undo=undo)


@user_router.post("/notes/revert", responses=refusals(413, 422))
def revert_notes(body: NotesReversion, app: TheApp, person: ThePerson) -> MemoriesDone:
    """Undo the last change of several notes: each gets its former version and date again, unless it was changed
    since."""
    require(person, "notes", Scope.WRITE)

    versions = {one.ref: one.version for one in body.notes}

    def revert(ref: str) -> None:
        app.notes.writer.revert(person, _note(app, person, ref).id, versions[ref])

    return _each(versions, revert)


def _note(app: App, person: Caller, ref: str) -> Note:
    return app.notes.reader.read(person, ref.removeprefix(NOTE))


def _each(refs: Iterable[str], run: Callable[[str], object]) -> MemoriesDone:
    done, refused = [], []
    for ref in dict.fromkeys(refs):
        try:
            run(ref)
        except AppError as exc:
            refused.append(Refused(ref=ref, error=exc.public_message))
        else:
            done.append(ref)
    return MemoriesDone(refs=done, refused=refused)
