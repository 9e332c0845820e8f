"""The events of clients that hooks handle, by the names that the clients give them."""

from typing import Any, Literal

HookMoment = Literal["start", "prompt", "capture"]

MOMENTS: dict[str, HookMoment] = {
    # Claude Code and Codex
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "PreCompact": "capture",
    "SessionEnd": "capture",
    "Stop": "capture",
    # Gemini CLI, which has SessionStart and SessionEnd, too
    "BeforeAgent": "prompt",
    "PreCompress": "capture",
    # Cursor
    "sessionStart": "start",
    "preCompact": "capture",
    "sessionEnd": "capture",
    "stop": "capture",
}
"""When each event happens: at the start of a conversation, at a prompt, or when it is to be kept."""

COMPACTIONS = {"PreCompact", "PreCompress", "preCompact"}

CAPTURE_STARTED: dict[str, Any] = {"output": None, "report": {"did": "started a capture"}}


def is_capture(event: str) -> bool:
    return MOMENTS.get(event) == "capture"
