"""What a model reads names only tools that its connection has, under the names it sees."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.families.registry import FAMILIES
from tests.wire import HELLO, Stdio, modern_meta

NAMES = {name for family in FAMILIES.values() for name in family.tools} | {
    str(tool.spec_name) for family in FAMILIES.values() for tool in family.tools.values() if tool.spec_name
}


def named_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+(?:[_/][a-z]+)+", text)) & NAMES


def texts_of(folder: Path, *flags: str) -> dict[str, Any]:
    """Instructions in both protocol eras, descriptions and prompts."""
    with closing(Stdio.start(folder, *flags, "--embedder", "none", hello=False)) as modern:
        discovered = modern.ask("server/discover", {"_meta": modern_meta()})["result"]["instructions"]
    with closing(Stdio.start(folder, *flags, "--embedder", "none", hello=False)) as server:
        instructions = server.ask("initialize", HELLO)["result"]["instructions"]
        server.send({"method": "notifications/initialized"})
        tools = server.ask("tools/list")["result"]["tools"]
        prompts = {
            prompt["name"]: server.ask("prompts/get", {"name": prompt["name"], "arguments": given(prompt)})
            for prompt in server.ask("prompts/list")["result"]["prompts"]
        }
    return {
        "names": {tool["name"] for tool in tools},
        "descriptions": " ".join(tool["description"] for tool in tools),
        "instructions": instructions,
        "discovered": discovered,
        "prompts": {name: got["result"]["messages"][0]["content"]["text"] for name, got in prompts.items()},
    }


def given(prompt: dict[str, Any]) -> dict[str, str]:
    return {argument["name"]: "x" for argument in prompt["arguments"]}


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--scopes read-only",
        "--scopes write_memory",
        "--families notes,recall",
        "--families stores",
        "--portal-names spec",
    ],
)
def test_no_text_names_an_unavailable_tool(tmp_path: Path, flags: str) -> None:
    texts = texts_of(tmp_path, *flags.split())
    assert named_in(texts["instructions"])
    assert texts["instructions"] == texts["discovered"]
    for text in (texts["instructions"], texts["descriptions"], *texts["prompts"].values()):
        assert named_in(text) <= texts["names"]


def test_a_read_only_connection_reads_how_to_read(tmp_path: Path) -> None:
    texts = texts_of(tmp_path, "--scopes", "read-only")
    assert "write down" not in texts["instructions"]
    assert "memory_search" in texts["instructions"]
    assert list(texts["prompts"]) == ["recall"]
    assert "add_observations" not in texts["descriptions"]
