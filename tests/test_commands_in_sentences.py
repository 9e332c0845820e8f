"""Commands that sentences name, in the docs and in messages: the verb, its options and the chore exist."""

import re
from pathlib import Path

import pytest

from memory_mcp import settings
from tests.cli.test_command_tree import SERVING, VERBS, options

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
COMMAND = re.compile(r"`memory-mcp ([^`\n]+)`")
CHORE = re.compile(r"`make ([a-z][a-z-]*)[^`]*`")
SETTINGS = {settings.flag(name) for name in settings.Settings.model_fields}
GENERAL = {"--help", "--version", "--data-dir", "--json"}


def named(pattern: re.Pattern[str]) -> dict[str, str]:
    """What the sentences name, with the page of each."""
    return {found: page.name for page in PAGES for found in pattern.findall(page.read_text(encoding="utf-8"))}


def verbs(words: list[str]) -> list[str]:
    """The verbs that a command names: `sync now`, or with alternatives `sync link|unlink`. All of them exist."""
    plain = [word for word in words if not word.startswith("-")]
    for depth in (2, 1):
        *group, last = plain[:depth]
        choices = [" ".join([*group, choice]) for choice in last.split("|")]
        if VERBS.keys() >= set(choices):
            return choices
    return []


@pytest.mark.parametrize("command", sorted(named(COMMAND)))
def test_a_command_exists_with_its_options(command: str) -> None:
    words = command.split()
    flags = {word.split("=")[0] for word in words if word.startswith("--")}
    if words[0].startswith("--") or words[0] == "VERB":
        assert flags <= SETTINGS | GENERAL, named(COMMAND)[command]
        return
    groups = {verb.split()[0] for verb in VERBS if " " in verb}
    if words in ([group] for group in groups):
        return
    found = verbs(words)
    assert found, named(COMMAND)[command]
    for verb in found:
        known = options(verb) | GENERAL | (SETTINGS if verb in SERVING | {"config"} else set())
        assert flags <= known, named(COMMAND)[command]


def test_every_chore_that_a_page_names_exists() -> None:
    chores = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {chore: page for chore, page in named(CHORE).items() if chore not in chores} == {}
