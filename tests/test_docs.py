"""Docs are part of the product: what the code offers has its heading in the docs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memory_mcp.clients.profiles import PROFILES
from memory_mcp.errors import CODES, HUB_CODES, KEY_CODES
from memory_mcp.families.registry import FAMILIES, select
from memory_mcp.server.tool_list import ToolList
from memory_mcp.services.sync.protocol import CLOCK_AHEAD, FORKED, OTHER_SECRET
from memory_mcp.settings import SECRETS, Settings, env_name, flag

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def headings(page: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE))


def test_every_tool_has_its_heading() -> None:
    assert {tool for family in FAMILIES.values() for tool in family.tools} <= headings("tools.md")


def test_every_setting_has_its_heading_its_flag_and_its_variable() -> None:
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert set(Settings.model_fields) <= headings("settings.md")
    for name in Settings.model_fields:
        assert f"`{env_name(name)}`" in page
        assert name in SECRETS or f"`{flag(name)}` · `{env_name(name)}`" in page


def test_every_error_code_has_its_heading() -> None:
    raised = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                raised.add(node.value.value)
    assert "too_large" in raised
    assert {CLOCK_AHEAD, FORKED, OTHER_SECRET} == set(HUB_CODES)
    assert raised <= {*CODES, *KEY_CODES, *HUB_CODES} <= headings("errors.md")


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.make_docs", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_promise_of_security_is_shown_by_tests_that_exist() -> None:
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    chores = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    promises = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    shown = [cells[-1] for cells in promises if cells[-1].strip() != "shown by"]
    assert len(shown) > 20
    for cell in shown:
        paths, makes = re.findall(r"`(tests/[^`]+)`", cell), re.findall(r"`make ([a-z-]+)", cell)
        assert paths or makes, cell
        assert set(makes) <= chores
        for path in paths:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS.rglob("*.md")], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_design_page_names_every_module_and_only_what_exists() -> None:
    """Its tree has every module, and its text no file or class that is gone."""
    source, page = ROOT / "src" / "memory_mcp", (DOCS / "design.md").read_text(encoding="utf-8")
    tree = page.split("```")[3]
    assert tree.startswith("\nsrc/memory_mcp/")
    modules = {path.stem for path in source.rglob("*.py")} - {"__init__"}
    assert modules - set(re.findall(r"\w+", tree)) == set()
    files = [name for name in re.findall(r"`([\w./]+/[\w.]+\.\w+)`", page) if "NAME" not in name]
    assert [name for name in files if not ((source / name).exists() or (ROOT / name).exists())] == []
    code = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    classes = set(re.findall(r"`([A-Z][a-z]+[A-Z]?\w*)(?:\.\w+)?`", page))
    assert {name for name in classes if not re.search(rf"\bclass {name}\b", code)} == set()


def test_the_readme_has_the_sizes_that_connect_shows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for profile in PROFILES.values():
        tools, tokens = ToolList(select(FAMILIES, profile.families), in_spec=False).size()
        families = ", ".join(profile.families) or "all"
        assert f"| `{profile.name}` | {families} | {tools} | {round(tokens, -2):,} |" in readme
