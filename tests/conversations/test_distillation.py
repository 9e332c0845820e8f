"""The prompt `distill` over MCP: a scripted model follows it, and its note takes the place of what was said."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.families.notes import distillation
from memory_mcp.text import tokens
from tests.conversations.conftest import TRANSCRIPTS, Hook, given
from tests.conversations.test_capture import line

pytestmark = pytest.mark.anyio
MESSAGE = re.compile(r"^\[([0-9a-f-]{36})\] \S+ (user|assistant):\n(.*)$", re.MULTILINE)


async def written(client: Client, **arguments: str) -> str:
    [message] = (await client.get_prompt("distill", arguments)).messages
    return str(message.content.text)  # type: ignore[union-attr]  # it is a text


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert isinstance(answer.structured_content, dict)
    return answer.structured_content


async def follow(client: Client, text: str) -> list[str]:
    """Make the calls that the text says, as a model would: one note for all messages. Returns their ids."""
    search, create = (
        json.loads(one.replace("…", "invoices database")) for one in re.findall(r"\{.*?\}(?= for|$)", text, re.M)[:2]
    )
    assert (await call(client, "memory_search", search))["memories"] == []
    ids = [id_ for id_, _, _ in MESSAGE.findall(text)]
    content = "Invoices are in a PostgreSQL database, with a due date."
    await call(client, "memory_create", create | {"title": "Invoices", "content": content, "supersedes": ids})
    return ids


async def test_a_model_writes_a_note_that_supersedes_a_conversation(client: Client, hook: Hook) -> None:
    hook("SessionEnd", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    text = await written(client)
    assert [role for _, role, _ in MESSAGE.findall(text)] == ["user", "assistant", "user", "assistant"]
    ids = await follow(client, text)
    query = {"query": "Which database do we use for invoices?"}
    first, *others = (await call(client, "memory_search", query))["memories"]
    assert (first["title"], first["namespace"], "superseded_by" in first) == ("Invoices", "project/billing", False)
    assert {one["id"]: one["superseded_by"] for one in others if one["id"] in ids} == {
        one["id"]: first["id"] for one in others if one["id"] in ids
    }
    assert others
    recalled = (await call(client, "recall_memories", query))["hits"]
    assert recalled[0]["title"] == "Invoices"
    suggested = given(hook("UserPromptSubmit", session="two", prompt="which database has the invoices"))
    assert "with a due date" in suggested
    assert "said in a conversation" not in suggested
    with pytest.raises(MCPError, match="no note supersedes"):
        await written(client)


async def test_what_does_not_fit_is_named_and_comes_next(
    client: Client, app: App, caller: Caller, hook: Hook, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distillation, "MAX_TOKENS", 600)
    file = elsewhere / "t.jsonl"
    file.write_text("".join(line(number, f"message {number}, " + "and so on " * 20) for number in range(20)))
    hook("SessionEnd", transcript_path=str(file))
    seen: list[str] = []
    while len(seen) < 20:
        text = await written(client, project="billing", days="30")
        assert tokens.estimate(text) < 600 + 500
        messages = MESSAGE.findall(text)
        seen = [words.split(",")[0] for _, _, words in messages] + seen
        left = 20 - len(seen)
        assert (f"{left} older messages do not fit here, the oldest of 2029-12-31" in text) == (left > 0)
        await call(client, "memory_create", {"content": f"note {left}", "supersedes": [one[0] for one in messages]})
    assert seen == [f"message {number}" for number in range(20)]


async def test_a_project_or_a_conversation_is_chosen(client: Client, hook: Hook, elsewhere: Path) -> None:
    (elsewhere / "shop").mkdir()
    for session, folder in (("one", None), ("two", elsewhere / "shop"), ("three", elsewhere / "shop")):
        file = elsewhere / f"{session}.jsonl"
        file.write_text(line(1, f"said in {session}"))
        hook("SessionEnd", session=session, transcript_path=str(file), **({"cwd": str(folder)} if folder else {}))

    async def messages(**arguments: str) -> set[str]:
        return {words for _, _, words in MESSAGE.findall(await written(client, **arguments))}

    assert await messages() == {"said in two", "said in three"}
    assert await messages(project="billing") == {"said in one"}
    assert await messages(conversation="conversation:claude-code:two") == {"said in two"}
    with pytest.raises(MCPError):
        await messages(project="nothing")
