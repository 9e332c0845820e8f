"""The events of clients, and the JSON they send and read. No other module knows the clients' own names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_mcp.conversations import transcripts
from memory_mcp.conversations.model import HookCall
from memory_mcp.errors import Invalid
from memory_mcp.hooks.events import COMPACTIONS, MOMENTS
from memory_mcp.text.invisible_characters import show

MAX_SESSION_ID_CHARS = 200
MAX_PROMPT_CHARS = 20_000
MAX_PATH_CHARS = 4096
CONTINUED = ("resume", "compact", "fork")  # sources of a start


def parse(client: str, event: str, payload: Mapping[str, Any]) -> HookCall:
    """What a client asks for. Its prompt is without what the client put into it, as Gemini CLI does with a digest.

    Gemini CLI sends PreCompress with the trigger `auto` after each prompt, also if it compacts nothing.

    Raises Invalid for an event that hooks do not handle, or without a conversation."""
    if event not in MOMENTS:
        raise Invalid(f"{event} is not an event that hooks handle. There are {', '.join(MOMENTS)}.", field="event")
    session_id = _text(payload, "session_id", "conversation_id")
    if not 0 < len(session_id) <= MAX_SESSION_ID_CHARS:
        raise Invalid("There is no session_id.", field="session_id")
    roots = payload.get("workspace_roots")
    folder = _text(payload, "cwd") or (
        transcripts.encodable(str(roots[0])) if isinstance(roots, list) and roots else ""
    )
    transcript = _text(payload, "transcript_path")
    for field, path in (("cwd", folder), ("transcript_path", transcript)):
        if len(path) > MAX_PATH_CHARS or "\0" in path:
            raise Invalid(f"{field} is not a path.", field=field)
    return HookCall(
        client,
        event,
        MOMENTS[event],
        session_id,
        Path(folder) if folder else None,
        Path(transcript) if transcript else None,
        transcripts.without_insertions(_text(payload, "prompt"))[:MAX_PROMPT_CHARS],
        is_continued=_text(payload, "source") in CONTINUED,
        is_compaction=event in COMPACTIONS and not (event == "PreCompress" and _text(payload, "trigger") == "auto"),
    )


def encode(call: HookCall, text: str | None) -> dict[str, Any] | None:
    """What the client reads from stdout; None for nothing."""
    if not text:
        return None
    text = show(text)
    if call.client == "cursor":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": call.event, "additionalContext": text}}


def _text(payload: Mapping[str, Any], *names: str) -> str:
    return next((transcripts.encodable(value) for name in names if isinstance(value := payload.get(name), str)), "")
