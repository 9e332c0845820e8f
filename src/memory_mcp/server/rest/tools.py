"""Every tool for the web app: a user can do what their agents can."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from fastapi import Body, Path, Query, Request

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.errors import NotFound
from memory_mcp.families.family import Call, Tool
from memory_mcp.families.recall.counts import counts_by_family
from memory_mcp.families.recall.references import open_reference
from memory_mcp.server import results
from memory_mcp.server.disconnects import DISCONNECT
from memory_mcp.server.rest.authentication import TheApp, ThePerson, app_of, tool_named
from memory_mcp.server.rest.common import refusals
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.rest.shapes import MAX_REF_CHARS
from memory_mcp.server.tool_calls import ToolCalls
from memory_mcp.services.sessions import Session

WEB_APP = "web app"


@user_router.post("/tools/{name}", responses=refusals(404, 409, 413, 422))
def call_tool(
    name: Annotated[str, Path(max_length=64)],
    arguments: Annotated[dict[str, Any], Body(description="As the tool's input schema in tools/list says.")],
    request: Request,
    app: TheApp,
    person: ThePerson,
) -> dict[str, Any]:
    """Call a tool, as an MCP client would. The answer is its structured content."""
    tool = tool_named(app, name)
    if tool is None:
        raise NotFound(f"Unknown tool: {name}. docs/tools.md names those there are.")
    return run_tool(request, person, tool, arguments)


@user_router.get("/open", responses=refusals(404, 422))
def open_ref(ref: Annotated[str, Query(max_length=MAX_REF_CHARS)], app: TheApp, person: ThePerson) -> Any:
    """The memory of a `ref` from recall_memories."""
    _, opened = open_reference(app.opened, person, session_of(app, person), ref)
    return opened.details


@user_router.get("/overview")
def home(app: TheApp, person: ThePerson) -> dict[str, dict[str, int | str]]:
    """The counts of each family by name; of a family that cannot be read, its `error`."""
    return counts_by_family(app.opened, person)


def run_tool(request: Request, person: Caller, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The one entry of tool calls, over REST."""
    app, tool_calls = app_of(request), request.app.state.tool_calls
    call = Call(
        app.opened[tool.family].operations,
        person,
        session_of(app, person),
        cancelled=request.scope[DISCONNECT].event,
    )
    answer = cast(ToolCalls, tool_calls).run(call, tool, given)
    return results.shown(tool, answer, person, given)


def session_of(app: App, person: Caller) -> Session:
    """A user's session in the web app, which ends after an idle time."""
    connection = app.sessions.connection_without_handshake(person, WEB_APP)
    session = Session(connection.chosen_session or connection.own_session, connection, WEB_APP)
    return app.sessions.join(person.user, session)
