"""Which command adds an extra to an installation."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from memory_mcp.system import installation
from tests.clients.test_model import recorded


@pytest.mark.parametrize(
    ("file", "command"),
    [
        (None, "pip install"),
        ("uv-receipt.toml", "uv tool install"),
        ("pipx_metadata.json", "pipx install --force"),
    ],
)
def test_an_extra_is_added_in_the_way_it_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str | None, command: str
) -> None:
    if file:
        (tmp_path / file).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    recorded(monkeypatch, '{"url": "file:///home/me/clone"}')
    assert installation.install_command("portals") == f"{command} '/home/me/clone[portals]'"


def test_uvx_connects_clients_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "archive-v0" / "x"))
    monkeypatch.setenv("UV", "/usr/bin/uv")
    recorded(monkeypatch, None)
    assert installation.install_command("portals") == "uvx --from 'five-memories[portals]' memory-mcp connect"


def test_an_address_gets_the_name_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, '{"url": "https://example.com/five.whl"}')
    assert installation.requirement("portals") == "five-memories[portals] @ https://example.com/five.whl"


def test_this_installation_is_known() -> None:
    assert metadata.distribution("five-memories")
    assert installation.install_command("portals").endswith("[portals]'")
