"""The protocol for every family, with a family made for these tests."""

import json
import logging
import threading
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference

from memory_mcp.app import App
from memory_mcp.caller import Scope
from memory_mcp.errors import Conflict
from memory_mcp.families.family import Arguments, Call, Family, OpenFamily, Prompt, PromptArgument
from memory_mcp.families.vault import storage
from memory_mcp.server.protocol import McpServer
from tests.conftest import connected
from tests.events import TIMEOUT_S

pytestmark = pytest.mark.anyio


class Nothing(Arguments):
    pass


@dataclass(frozen=True)
class Done:
    steps: int


@pytest.fixture
def workshop() -> Family[None]:
    family = Family[None](
        name="workshop",
        open=lambda context: None,
        purpose="tests of the server",
        main_tools=(),
        errors="tool-result",
        uri_prefixes=("workshop://",),
        prompts=(
            Prompt(
                "build",
                "Build",
                "Ask for something to be built.",
                (PromptArgument("what", "The thing."), PromptArgument("colour", "Its colour.", required=False)),
                lambda call, given: f"Build {given['what']} in {given.get('colour', 'any colour')}.",
            ),
        ),
        complete=lambda call, name, value: [c for c in ("red", "rose") if name == "colour" and c.startswith(value)],
    )

    @family.tool(Nothing, answers=Done, title="Step", needs=Scope.READ)
    def step(call: Call[None], arguments: Nothing) -> Done:
        """Report progress three times."""
        for number in range(3):
            call.progress(f"step {number + 1}", number + 1, 3)
        return Done(3)

    @family.tool(Nothing, answers=Done, title="Refuse", needs=Scope.WRITE)
    def refuse(call: Call[None], arguments: Nothing) -> Done:
        """Refuse."""
        raise Conflict("Taken. Choose another.", name="x")

    @family.tool(Nothing, answers=Done, title="Break", needs=Scope.WRITE)
    def fall_apart(call: Call[None], arguments: Nothing) -> Done:
        """Have a bug."""
        raise RuntimeError("/home/someone/secret.db")

    return family


def _with(app: App, workshop: Family[None]) -> App:
    opened = {**app.opened, workshop.name: OpenFamily(workshop, None)}
    return replace(app, families={**app.families, workshop.name: workshop}, opened=opened)


@pytest.fixture
async def mcp_server(app: App, workshop: Family[None]) -> McpServer:
    return McpServer(_with(app, workshop))


async def test_progress_reaches_the_client(client: Client) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    await client.call_tool("step", {}, progress_callback=hear)
    assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_cancelled_call_sees_the_cancellation(app: App, workshop: Family[None], era: str) -> None:
    started, noticed = threading.Event(), threading.Event()

    @workshop.tool(Nothing, answers=Done, title="Wait", needs=Scope.READ)
    def wait(call: Call[None], arguments: Nothing) -> Done:
        """Wait until the call is cancelled."""
        started.set()
        if call.cancelled.wait(TIMEOUT_S):
            noticed.set()
        return Done(0)

    mcp_server = McpServer(_with(app, workshop))
    async with connected(mcp_server, mode=era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "wait", {})
        await anyio.to_thread.run_sync(started.wait, TIMEOUT_S)
        tasks.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(noticed.wait, TIMEOUT_S)


async def test_errors_of_families_with_tool_results_are_tool_results(client: Client) -> None:
    result = await client.call_tool("refuse", {})

    expected = {"error": "conflict", "message": "Taken. Choose another.", "data": {"name": "x"}}
    assert result.is_error
    assert result.structured_content == expected
    assert json.loads(result.content[0].text) == expected  # type: ignore[union-attr]


async def test_bad_arguments_use_the_error_format_of_the_family(client: Client) -> None:
    result = await client.call_tool("step", {"colour": "red"})

    assert result.is_error
    assert isinstance(result.structured_content, dict)
    assert result.structured_content["error"] == "invalid"
    assert result.structured_content["data"] == {"field": "colour"}


async def test_a_bug_is_logged_in_full_and_hidden_from_clients(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("/home/someone/secret.db")

    monkeypatch.setattr(storage, "upsert", broken)
    monkeypatch.setattr(storage, "keys_after", broken)
    with caplog.at_level(logging.ERROR):
        result = await client.call_tool("fall_apart", {})
        assert result.is_error
        with pytest.raises(MCPError) as called:
            await client.call_tool("commit_memory", {"scope": "vault", "key": "k", "content": "c"})
        with pytest.raises(MCPError) as listed:
            await client.list_resources()
    assert called.value.error.code == listed.value.error.code == -32603
    assert called.value.error.data == listed.value.error.data == {"error": "unavailable"}
    assert "secret" not in f"{result.content}{called.value.error.message}{listed.value.error.message}"
    assert caplog.text.count("secret.db") >= 3


async def test_prompts_are_listed_written_and_completed(client: Client) -> None:
    prompt = next(prompt for prompt in (await client.list_prompts()).prompts if prompt.name == "build")
    assert (prompt.name, prompt.title, prompt.description) == ("build", "Build", "Ask for something to be built.")
    assert [(argument.name, argument.required) for argument in prompt.arguments or []] == [
        ("what", True),
        ("colour", False),
    ]

    written = await client.get_prompt("build", {"what": "a boat"})
    assert written.messages[0].content.text == "Build a boat in any colour."  # type: ignore[union-attr]  # it is a text
    completed = await client.complete(
        PromptReference(type="ref/prompt", name="build"), {"name": "colour", "value": "ro"}
    )
    assert completed.completion.values == ["rose"]


@pytest.mark.parametrize(
    ("given", "field"), [({}, "what"), ({"what": " "}, "what"), ({"what": "x", "size": "y"}, "size")]
)
async def test_bad_prompt_arguments_are_refused(client: Client, given: dict[str, str], field: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.get_prompt("build", given)
    assert caught.value.error.code == -32602
    assert caught.value.error.data == {"error": "invalid", "field": field}


async def test_unknown_tools_prompts_and_methods_are_protocol_errors(client: Client) -> None:
    with pytest.raises(MCPError) as tool:
        await client.call_tool("no_such_tool", {})
    with pytest.raises(MCPError) as prompt:
        await client.get_prompt("no_such_prompt")
    assert tool.value.error.code == prompt.value.error.code == -32602
