"""Which project a folder belongs to, and where hooks are switched off."""

import os
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.conversations.projects import project_of
from tests.conversations.conftest import TRANSCRIPTS, Hook


def repository(folder: Path, address: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[core]\n\tbare = false\n[remote "up"]\n\turl = {address}\n')
    return folder


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("git@github.com:acme/Billing.git", "billing"),
        ("https://github.com/acme/billing/", "billing"),
        ("ssh://git@host:22/acme/my%20app.git", "my-20app"),
        ("C:\\repos\\billing.git", "billing"),
    ],
)
def test_the_remote_names_a_project(tmp_path: Path, address: str, name: str) -> None:
    deep = repository(tmp_path / "checkout", address) / "src" / "deep"
    deep.mkdir(parents=True)
    assert project_of(deep).name == name


def test_a_worktree_belongs_to_its_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", "git@github.com:acme/billing.git")
    inside = main / ".git" / "worktrees" / "two"
    inside.mkdir(parents=True)
    (inside / "commondir").write_text("../..\n")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / ".git").write_text(f"gitdir: {inside}\n")
    assert project_of(tmp_path / "two").name == "billing"


def test_without_a_remote_the_folder_names_it(tmp_path: Path) -> None:
    (tmp_path / "My Shop" / ".git").mkdir(parents=True)
    (tmp_path / "My Shop" / "src").mkdir()
    assert project_of(tmp_path / "My Shop" / "src").name == "my-shop"
    assert project_of(tmp_path / "gone" / "away").name == "away"


def test_a_file_names_the_project_or_switches_hooks_off(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    file = tmp_path / ".memory-mcp"
    file.write_text('project = "shop"\ncapture = false\n')
    found = project_of(tmp_path / "src")
    assert (found.name, found.off, found.captures) == ("shop", None, False)
    for text in ("hooks = false", "off", 'hooks = "off"'):
        file.write_text(text)
        assert project_of(tmp_path / "src").off


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hooks": "false"}, "the setting hooks switches them off"),
        ({"hooks_without": "claude-code"}, "the setting hooks_without names claude-code"),
        ({"hooks_without": "shop, Billing"}, "the setting hooks_without names billing"),
    ],
)
def test_settings_switch_hooks_off(hook: Hook, options: dict[str, Any], why: str) -> None:
    for event in ("SessionStart", "UserPromptSubmit", "SessionEnd"):
        answer = hook(event, prompt="one two three", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
        assert (answer["output"], answer["report"]["did"], answer["report"]["why"]) == (None, "nothing", why)


@pytest.mark.parametrize("options", [{"hook_capture": "false"}])
def test_capture_can_be_switched_off_alone(hook: Hook, options: dict[str, Any]) -> None:
    answer = hook("SessionEnd", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    assert answer["report"]["why"] == "capture is switched off"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
@pytest.mark.parametrize("name", [".git", ".git/config", ".memory-mcp"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / "billing" / name
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    assert project_of(tmp_path / "billing").name == "billing"


def test_a_file_that_is_nested_too_deeply_switches_everything_off(tmp_path: Path) -> None:
    (tmp_path / ".memory-mcp").write_text("a = " + "[" * 20_000)
    assert project_of(tmp_path).off
