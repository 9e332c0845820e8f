"""What tools/list says of the notes' arguments is what the server does with them."""

from collections.abc import Iterator
from typing import Any

import pytest

from memory_mcp.families.registry import FAMILIES
from tests.wire import Stdio

TOOLS = FAMILIES["notes"].tools


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    process = Stdio.start(tmp_path_factory.mktemp("schemas"), "--families", "notes", "--embedder", "none")
    yield process
    process.close()


@pytest.fixture(scope="module")
def arguments(server: Stdio) -> dict[str, dict[str, Any]]:
    """The properties of each tool."""
    tools = server.ask("tools/list")["result"]["tools"]
    return {tool["name"]: tool["inputSchema"]["properties"] for tool in tools}


def refusal(server: Stdio, tool: str, arguments_given: dict[str, Any]) -> str | None:
    """The argument to blame, of a call that is refused as invalid."""
    result = server.ask("tools/call", {"name": tool, "arguments": arguments_given})["result"]
    content = result["structuredContent"]
    return str(content["data"].get("field")) if result.get("isError") and content["error"] == "invalid" else None


def others(tool: str) -> dict[str, Any]:
    """What each tool needs beside; a search for nothing needs a filter."""
    if tool == "memory_search":
        return {"min_importance": 0.5}
    needed = {name for name, field in TOOLS[tool].arguments.model_fields.items() if field.is_required()}
    return dict.fromkeys(needed, "x")


@pytest.mark.parametrize("tool", TOOLS)
def test_arguments_that_may_not_be_empty_are_declared_and_checked(
    server: Stdio, arguments: dict[str, dict[str, Any]], tool: str
) -> None:
    for name, schema in arguments[tool].items():
        is_list = schema.get("type") == "array"
        if (schema["items"] if is_list else schema).get("type") != "string" or "enum" in schema:
            continue
        blamed = refusal(server, tool, others(tool) | {name: [""] if is_list else ""})
        declared = (schema["items"] if is_list else schema).get("minLength", 0)
        assert (declared == 1) == (blamed is not None and blamed.startswith(name)), (name, declared, blamed)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_default_of_every_flag_and_number_is_declared(arguments: dict[str, dict[str, Any]], tool: str) -> None:
    """Unless it is off, or zero."""
    for name, field in TOOLS[tool].arguments.model_fields.items():
        if isinstance(field.default, bool | int | float) and field.default:
            assert arguments[tool][name]["default"] == field.default, name
