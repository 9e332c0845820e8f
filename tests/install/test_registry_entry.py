"""server.json, the entry of the MCP registry: it fits the published schema and describes this package."""

import json
from importlib.resources import files
from typing import Any

import pytest
from jsonschema_rs import Draft7Validator
from tools.distribution import ROOT, tracked_files

from memory_mcp import DISTRIBUTION, __version__
from memory_mcp.settings import Settings, env_names

SCHEMA = "2025-12-11"


@pytest.fixture
def entry() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "server.json").read_bytes())
    return read


def test_it_fits_the_published_schema(entry: dict[str, Any]) -> None:
    folder = files("skillsaw") / "schemas" / "mcp_registry" / f"v{SCHEMA.replace('-', '_')}"
    schema = json.loads((folder / "server.schema.json").read_text(encoding="utf-8"))
    assert entry["$schema"] == schema["$id"]
    assert [error.message for error in Draft7Validator(schema).iter_errors(entry)] == []


def test_it_describes_this_package(entry: dict[str, Any]) -> None:
    [package] = entry["packages"]
    assert entry["version"] == package["version"] == __version__
    assert package["identifier"] == DISTRIBUTION
    known = {name for field in Settings.model_fields for name in env_names(field)}
    assert {variable["name"] for variable in package["environmentVariables"]} <= known


def test_the_readme_has_the_line_by_which_the_registry_knows_the_owner(entry: dict[str, Any]) -> None:
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


def test_the_docs_say_what_the_publisher_replaces(entry: dict[str, Any]) -> None:
    """The registry takes an entry only from the owner of the account in its name."""
    owner = entry["name"].partition("/")[0].removeprefix("io.github.")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert ("replace `OWNER`" in page) == (owner == "OWNER")
    pages = [path for path in tracked_files() if path.suffix in (".md", ".json", ".toml", ".py", ".yml")]
    texts = {path.as_posix(): (ROOT / path).read_text(encoding="utf-8") for path in pages}
    assert {name for name, text in texts.items() if f"io.github.{owner}/" in text} == {"README.md", "server.json"}
