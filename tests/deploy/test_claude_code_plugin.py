"""The Claude Code plugin calls the same hooks as `connect claude-code --auto`. `claude plugin validate` accepts it."""

import json
from pathlib import Path
from typing import Any

from memory_mcp import __version__
from memory_mcp.clients.automation import AUTOMATIONS, TIMEOUT_S

FOLDER = Path(__file__).parents[2] / "deploy" / "claude-code"


def read(path: str) -> Any:
    return json.loads((FOLDER / path).read_text(encoding="utf-8"))


def test_the_plugin_has_the_hooks_the_server_and_our_version() -> None:
    hooks = read("memory/hooks/hooks.json")["hooks"]
    assert list(hooks) == list(AUTOMATIONS["claude-code"].events)
    for event, [group] in hooks.items():
        command = f"memory-mcp hook {event} --client claude-code"
        assert group == {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}
    assert read("memory/.mcp.json")["mcpServers"]["memory"]["command"] == "memory-mcp"
    assert read("memory/.claude-plugin/plugin.json")["version"] == __version__
    [plugin] = read(".claude-plugin/marketplace.json")["plugins"]
    assert (FOLDER / plugin["source"]).is_dir()
