"""The command that a client's configuration gets."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from memory_mcp.clients import model


@pytest.fixture
def cached_by_uvx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "archive-v0" / "QN9Qveqn14Jxts5o"))
    monkeypatch.setenv("UV", "/usr/bin/uv")


def recorded(monkeypatch: pytest.MonkeyPatch, text: str | None, *, has_chdb: bool = False) -> None:
    """An installation with this direct_url.json."""

    class Installed(metadata.PathDistribution):
        def __init__(self) -> None:
            super().__init__(Path())

        def read_text(self, filename: str) -> str | None:  # type: ignore[override]  # it takes paths, too
            return text

    monkeypatch.setattr(metadata, "distribution", lambda name: Installed())
    monkeypatch.setattr(model, "find_spec", lambda name: has_chdb or None)


def test_an_installation_of_its_own_is_named_by_its_path() -> None:
    command = model.own_command("--families", "notes")
    assert Path(command.command).is_absolute()
    assert command.args[-2:] == ("--families", "notes")


@pytest.mark.usefixtures("cached_by_uvx")
@pytest.mark.parametrize(
    ("text", "has_chdb", "requirement"),
    [
        (None, False, "five-memories"),
        (None, True, "five-memories[portals]"),
        ('{"url": "file:///home/me/five%20memories.whl"}', False, "/home/me/five memories.whl"),
        ('{"url": "https://example.com/five.whl"}', False, "https://example.com/five.whl"),
    ],
)
def test_an_installation_in_uvs_cache_is_named_by_what_it_was_made_from(
    monkeypatch: pytest.MonkeyPatch, text: str | None, has_chdb: bool, requirement: str
) -> None:
    recorded(monkeypatch, text, has_chdb=has_chdb)
    assert model.own_command("--families", "notes") == model.Stdio(
        "/usr/bin/uv", ("tool", "run", "--from", requirement, "memory-mcp", "--families", "notes")
    )


@pytest.mark.usefixtures("cached_by_uvx")
@pytest.mark.parametrize(
    ("text", "typed"),
    [
        (None, "uvx five-memories"),
        ('{"url": "file:///home/me/five%20memories"}', "uvx --from '/home/me/five memories' memory-mcp"),
    ],
)
def test_texts_for_people_have_commands_as_uvx_takes_them(
    monkeypatch: pytest.MonkeyPatch, text: str | None, typed: str
) -> None:
    recorded(monkeypatch, text)
    monkeypatch.setattr("shutil.which", {"uvx": "/usr/bin/uvx"}.get)
    assert model.as_typed("memory-mcp: No. `memory-mcp list` lists. Undo: memory-mcp rm --undo A") == (
        f"memory-mcp: No. `{typed} list` lists. Undo: {typed} rm --undo A"
    )


def test_texts_for_people_stay_as_they_are_in_other_installations() -> None:
    assert model.as_typed("`memory-mcp list` lists.") == "`memory-mcp list` lists."
