"""Hooks of clients, answered by an open app."""

from collections.abc import Mapping
from typing import Any

from memory_mcp.app.composition import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.clock import new_id
from memory_mcp.conversations import hook_calls
from memory_mcp.services.sessions import Connection, Session


def answer_hook(app: App, event: str, payload: Mapping[str, Any], client: str = "claude-code") -> dict[str, Any]:
    """The JSON for the client under `output`, null for nothing, and a report for `hook --explain`.

    Raises AppError, and OSError for a transcript that cannot be read.
    """
    call = hook_calls.parse(client, event, payload)
    caller = _caller(app, client)
    session = Session(new_id(), Connection(caller.user, new_id()), client)
    answer = app.conversations.answer(caller, session, call)
    report = {"conversation": call.conversation, "did": answer.did, "why": answer.why, **answer.details}
    return {"output": hook_calls.encode(call, answer.text), "report": report}


def resume_captures(app: App) -> int:
    """Store what was said in conversations whose client was killed, and so called no hook at its end. Returns how many
    messages that was. Raises AppError."""
    return app.conversations.resume_captures(_caller(app))


def _caller(app: App, client: str = "") -> Caller:
    return Caller(LOCAL_USER, ALL_SCOPES, frozenset(app.families), source="hook", client=client)
