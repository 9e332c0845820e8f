"""Raw files of a store: to edit them, and to restore a deleted one. Writes run as tool calls do."""

import base64
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Path, Query, Request

from memory_mcp.caller import Scope
from memory_mcp.families.family import Arguments, Call
from memory_mcp.families.stores import Stores
from memory_mcp.families.stores.model import FileChange
from memory_mcp.families.stores.tools import stores
from memory_mcp.server.middleware.body_limit import MAX_BODY_BYTES
from memory_mcp.server.rest.authentication import TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require
from memory_mcp.server.rest.routes import MAX_ID, user_router
from memory_mcp.server.rest.shapes import StoreFile, StoreFileEdited, StoreFilePutBack, StorePath
from memory_mcp.server.rest.tools import run_tool

OTHER_FIELDS_BYTES = 4096  # of a request, beside the file

StoreName = Annotated[str, Path(max_length=100)]

page_tools = replace(stores, tools={})
"""Tools that only the web app can call."""


class RestoreFile(Arguments):
    store: str
    path: str
    content: bytes
    changed_ns: int


class RewriteFile(Arguments):
    store: str
    path: str
    content: str
    was: str


@page_tools.tool(RestoreFile, answers=dict[str, Any], title="Put a file back", needs=Scope.WRITE)
def restore_store_file(call: Call[Stores], wanted: RestoreFile) -> dict[str, Any]:
    call.operations.restore_file(call.caller, wanted.store, wanted.path, wanted.content, wanted.changed_ns)
    return {"store": wanted.store, "path": wanted.path}


@page_tools.tool(RewriteFile, answers=dict[str, Any], title="Edit a file", needs=Scope.WRITE)
def rewrite_store_file(call: Call[Stores], wanted: RewriteFile) -> dict[str, Any]:
    change = FileChange(content=wanted.content)
    call.operations.update(call.caller, wanted.store, wanted.path, change, was=wanted.was)
    return {"store": wanted.store, "path": wanted.path}


@user_router.get("/stores/{store}/file", responses=refusals(404, 413, 422))
def store_file(
    store: StoreName, path: Annotated[str, Query(min_length=1, max_length=1024)], app: TheApp, person: ThePerson
) -> StoreFile:
    """The raw file of a store, which can be restored after it was deleted."""
    require(person, "stores", Scope.READ)
    content, changed_ns = app.stores.content(person, store, path)
    data = base64.b64encode(content).decode()
    comes_back = app.stores.may_be_added(path) and len(data) < MAX_BODY_BYTES - OTHER_FIELDS_BYTES
    return StoreFile(data=data, changed_ns=str(changed_ns), comes_back=comes_back)


@user_router.post("/stores/{store}/file", status_code=201, responses=refusals(404, 409, 413, 422))
def put_store_file_back(store: StoreName, body: StoreFilePutBack, request: Request, person: ThePerson) -> StorePath:
    """Restore a deleted file. 409 if the path has a file again."""
    require(person, "stores", Scope.WRITE)
    content, changed_ns = base64.b64decode(body.data), min(int(body.changed_ns), MAX_ID)
    given = {"store": store, "path": body.path, "content": content, "changed_ns": changed_ns}
    return StorePath.model_validate(run_tool(request, person, page_tools.tools["restore_store_file"], given))


@user_router.post("/stores/{store}/edit", responses=refusals(404, 409, 413, 422))
def edit_store_file(store: StoreName, body: StoreFileEdited, request: Request, person: ThePerson) -> StorePath:
    """Replace a file's markdown. 409 if it was changed since it was read."""
    require(person, "stores", Scope.WRITE)
    given = {"store": store, **body.model_dump()}
    return StorePath.model_validate(run_tool(request, person, page_tools.tools["rewrite_store_file"], given))
