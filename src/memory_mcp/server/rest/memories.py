"""Edits, deleting and restoring a memory of any family by its reference, as `memory-mcp edit` and `rm` do.

Writes run as tool calls do. The local user can restore with either what was deleted with the other.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field

from memory_mcp.app import App
from memory_mcp.caller import Caller, Scope
from memory_mcp.conversations import deletion as conversations
from memory_mcp.engines.files.undo_copies import UndoCopies
from memory_mcp.errors import Invalid
from memory_mcp.families.family import Arguments, Call, OpenFamily, Tool
from memory_mcp.families.recall.origins import last_writes_of
from memory_mcp.families.recall.references import family_of, open_reference
from memory_mcp.families.references import Edits
from memory_mcp.server.arguments import MAX_FIELD_BYTES
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.memory_shapes import (
    MemoryDeleted,
    MemoryDeletion,
    MemoryEdit,
    MemoryEdited,
    MemoryRestored,
    MemoryWriteShown,
    MemoryWritesShown,
)
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.rest.shapes import MAX_REF_CHARS, MemoryRef
from memory_mcp.server.rest.tools import run_tool, session_of
from memory_mcp.services.access.tenants import folder_of


class OneRef(Arguments):
    ref: str = Field(max_length=MAX_REF_CHARS)


class Delete(OneRef):
    for_good: bool = False


class Edit(OneRef):
    was: str = Field(max_length=MAX_FIELD_BYTES)
    text: str = Field(max_length=MAX_FIELD_BYTES)


Run = Callable[[Edits[Any], UndoCopies, Call[Any], Any], dict[str, Any]]


def edit_memory(edits: Edits[Any], _: UndoCopies, call: Call[Any], wanted: Edit) -> dict[str, Any]:
    edits.write(call, wanted.ref, wanted.was, wanted.text)
    return {"ref": wanted.ref}


def delete_memory(edits: Edits[Any], copies: UndoCopies, call: Call[Any], wanted: Delete) -> dict[str, Any]:
    edits.delete(call, wanted.ref, None if wanted.for_good else partial(copies.save, wanted.ref))
    if wanted.for_good:
        copies.delete(wanted.ref)
    return {"ref": wanted.ref}


def restore_memory(edits: Edits[Any], copies: UndoCopies, call: Call[Any], wanted: OneRef) -> dict[str, Any]:
    lost = edits.restore(call, wanted.ref, copies.get(wanted.ref))
    copies.delete(wanted.ref)
    return {"ref": wanted.ref, "lost": lost}


@user_router.post("/memories/edit", responses=refusals(404, 409, 413, 422))
def edit(body: MemoryEdit, request: Request, app: TheApp, person: ThePerson) -> MemoryEdited:
    """Replace the text of a memory. 409 if it was changed since it was read."""
    given = body.model_dump() | {"ref": _one_ref(app, person, body.ref)}
    return MemoryEdited.model_validate(_run(request, app, person, edit_memory, Scope.WRITE, Edit, given))


@user_router.post("/memories/delete", responses=refusals(404, 409, 413, 422))
def delete(body: MemoryDeletion, request: Request, app: TheApp, person: ThePerson) -> MemoryDeleted:
    """Delete a memory: for 30 days it can be restored, unless it is deleted for good. `conversation:ID` deletes what
    hooks stored of a conversation, `conversations:PROJECT` of a project, and `conversations:` all of it."""
    copies_of(app, person).delete_expired()
    return MemoryDeleted.model_validate(delete_one(request, app, person, **body.model_dump()))


@user_router.post("/memories/restore", responses=refusals(404, 409, 413, 422))
def restore(body: MemoryRef, request: Request, app: TheApp, person: ThePerson) -> MemoryRestored:
    """Restore what was deleted last under a reference. 409 if something else has it by now."""
    given = {"ref": body.ref}
    return MemoryRestored.model_validate(_run(request, app, person, restore_memory, Scope.WRITE, OneRef, given))


@user_router.get("/memories/writes", responses=refusals(404, 422))
def writes_of_memory(
    ref: Annotated[str, Query(max_length=MAX_REF_CHARS)],
    app: TheApp,
    person: ThePerson,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> MemoryWritesShown:
    """Who wrote a memory, and when."""
    one, _ = family_of(app.opened, person, ref)
    found = last_writes_of(one, person, ref, limit)
    return MemoryWritesShown(writes=[MemoryWriteShown.model_validate(vars(write)) for write in found])


def delete_one(request: Request, app: App, person: Caller, ref: str, *, for_good: bool = False) -> dict[str, Any]:
    given = {"ref": _one_ref(app, person, ref)} | ({"for_good": True} if for_good else {})
    return _run(request, app, person, delete_memory, Scope.DELETE, Delete, given)


def copies_of(app: App, person: Caller) -> UndoCopies:
    return UndoCopies(folder_of(app.settings.data_dir, person.user) / "removed")


def _one_ref(app: App, person: Caller, ref: str) -> str:
    """The reference as its family writes it. Raises NotFound, and Invalid for a list."""
    _, edits = _edits_of(app, person, ref)
    if edits is app.conversations.edits:
        return ref
    _, opened = open_reference(app.opened, person, session_of(app, person), ref)
    if not edits.is_one(opened.ref):
        raise Invalid("This is a list. Open one memory of it.", field="ref")
    return opened.ref


def _edits_of(app: App, person: Caller, ref: str) -> tuple[OpenFamily[Any], Edits[Any]]:
    if conversations.is_ref(ref):
        require(person, "notes", Scope.READ)
        return app.opened["notes"], app.conversations.edits
    one, references = family_of(app.opened, person, ref)
    if references.edits is None:
        raise Invalid("Rows are edited in their table.", field="ref")
    return one, references.edits


def _run(
    request: Request, app: App, person: Caller, run: Run, needs: Scope, arguments: type[OneRef], given: dict[str, Any]
) -> dict[str, Any]:
    one, edits = _edits_of(app, person, given["ref"])
    copies = copies_of(app, person)

    def run_here(call: Call[Any], wanted: Any) -> dict[str, Any]:
        return run(edits, copies, call, wanted)

    run_here.__name__ = run.__name__
    page_tools = replace(one.family, tools={})
    page_tools.tool(arguments, answers=dict[str, Any], title=run.__name__, needs=needs)(run_here)
    tool: Tool = page_tools.tools[run.__name__]
    return run_tool(request, person, tool, given)
