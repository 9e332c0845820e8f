"""No text says to install a package that is not ours."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from memory_mcp import DISTRIBUTION

ROOT = Path(__file__).parents[1]
TEXTS = ("src/**/*.py", "ui/src/**/*.ts*", "docs/**/*.md", "deploy/*", "*.md", "Makefile")
INSTALL = re.compile(r"\b(?:pip3?|pipx|uv(?: tool| pip)?) (?:install|run)[^\n`]*|\buvx[^\n`]*")

OURS = re.compile(r"--from (?:\S*five[-_]memories\S*|\.) memory-mcp")  # the command of our package, or of the clone
ANOTHER = re.compile(r"(?<![/\w-])memory-mcp(?:\[|'|\b(?!/))")


def commands() -> Iterator[str]:
    for pattern in TEXTS:
        for path in ROOT.glob(pattern):
            if path.is_file():
                for found in INSTALL.finditer(path.read_text(encoding="utf-8", errors="ignore")):
                    yield f"{path.relative_to(ROOT)}: {OURS.sub('', found[0])}"


def test_the_package_has_the_name_that_messages_use() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert set(project["scripts"]) == {"memory-mcp", DISTRIBUTION}


def test_no_text_installs_another_project() -> None:
    decision = "docs/decisions/0023"  # names what not to install
    found = [command for command in commands() if not command.startswith(decision)]
    assert found
    assert [command for command in found if ANOTHER.search(command.split(": ", 1)[1])] == []


def test_the_pages_say_whether_the_package_is_released() -> None:
    is_released = "(unreleased)" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for page in ("README.md", "docs/install.md"):
        assert ("not on PyPI yet" in (ROOT / page).read_text(encoding="utf-8")) == (not is_released)
