"""Conversations as hooks keep them, for tests of the server and of the web app."""

from pathlib import Path
from typing import Any

from memory_mcp.app import answer_hook, open_app
from memory_mcp.settings import load
from tests.conftest import Clock
from tests.conversations.conftest import TRANSCRIPTS

DAYS = {"MEMORY_MCP_HOOK_DAYS": "36500"}


def keep_conversations(data_dir: Path, folder: Path) -> None:
    """Keep two of the project billing, and one of shop; a new one of shop is given what was said in it.

    Capture takes no time of the future, and the transcripts are of 2029, so the clock stands at the first noon of 2030.
    """
    settings = load({"data_dir": data_dir, "embedder": "none"}, environ=DAYS).settings
    with open_app(settings, clock=Clock(), serving=False) as app:

        def hook(event: str, client: str, project: str, session: str, **payload: Any) -> None:
            (folder / project).mkdir(exist_ok=True)
            answer_hook(app, event, payload | {"session_id": session, "cwd": str(folder / project)}, client)

        for client, project in (("claude-code", "shop"), ("claude-code", "billing"), ("codex", "billing")):
            transcript = str(TRANSCRIPTS / f"{client}.jsonl")
            hook("SessionEnd", client, project, f"in {project}", transcript_path=transcript)
        hook("SessionStart", "claude-code", "shop", "new", source="startup")
        hook("UserPromptSubmit", "claude-code", "shop", "new", prompt="Which database do we use for invoices?")
