"""What a starting server prints goes by the same list of clients as `memory-mcp connect`."""

import json
from pathlib import Path

import pytest

from memory_mcp import settings
from memory_mcp.clients import CLIENTS, Http
from memory_mcp.clients.model import own_command
from memory_mcp.server import startup_message


@pytest.mark.parametrize("auth", ["key", "none"])
def test_the_snippets_are_what_connect_would_write(tmp_path: Path, auth: str) -> None:
    chosen = settings.load({"data_dir": tmp_path, "auth": auth}, environ={}).settings
    shown = startup_message.text(chosen, 8765, "mmcp_key" if auth == "key" else None, None)
    way = Http("http://127.0.0.1:8765/mcp", "mmcp_key" if auth == "key" else None)
    for client in (CLIENTS["cursor"], CLIENTS["vscode"]):
        assert f"{json.dumps({client.section: {'memory': client.entry(way)}})}" in shown
    assert ("--key mmcp_key" in shown) == (auth == "key")
    assert "memory-mcp connect CLIENT --http http://127.0.0.1:8765" in shown


def test_commands_are_shown_as_they_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(own_command().command)
    chosen = settings.load({"data_dir": tmp_path}, environ={}).settings
    monkeypatch.setenv("PATH", str(own.parent))
    assert "`memory-mcp keys create" in startup_message.text(chosen, 8765, None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"`{own} keys create" in startup_message.text(chosen, 8765, None, None)


def test_commands_find_the_data_of_this_server(tmp_path: Path) -> None:
    chosen = settings.load({"data_dir": tmp_path / "my data"}, environ={}).settings
    for token in (None, "token"):
        assert f"users link --data-dir '{tmp_path}/my data'`" in startup_message.text(chosen, 8765, None, token)
    usual = settings.load({}, environ={}).settings
    assert "--data-dir" not in startup_message.text(usual, 8765, None, None)
