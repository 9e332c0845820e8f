"""The MCP bundle: its manifest fits the published schema, and its server runs as a desktop client would run it."""

import json
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft7Validator
from tools.bundle import MANIFEST_VERSION, write_bundle
from tools.distribution import UV, build_wheel, copy_tree
from tools.install_ways import User

from memory_mcp import __version__
from tests.compatibility.judges import Broken, Judges, installed
from tests.install.product import stdio_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked bundle."""
    scratch = tmp_path_factory.mktemp("bundle")
    wheel = build_wheel(copy_tree(scratch / "tree"), scratch / "wheel")
    with zipfile.ZipFile(write_bundle(wheel, scratch)) as bundle:
        bundle.extractall(scratch / "unpacked")
    return scratch / "unpacked"


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return read


@pytest.fixture(scope="module")
def judges() -> Judges:
    try:
        return installed()
    except Broken as exc:
        pytest.skip(str(exc))


def test_the_manifest_fits_the_published_schema(manifest: dict[str, Any], folder: Path, judges: Judges) -> None:
    package = judges.packages / "@anthropic-ai" / "mcpb"
    schema = json.loads((package / "schemas" / f"mcpb-manifest-v{MANIFEST_VERSION}.schema.json").read_bytes())
    assert [error.message for error in Draft7Validator(schema).iter_errors(manifest)] == []
    done = subprocess.run(judges.command("mcpb", "validate", str(folder)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert manifest["version"] == __version__
    assert (folder / manifest["icon"]).is_file()
    assert (folder / manifest["server"]["entry_point"]).is_file()


def test_a_desktop_client_can_run_it(manifest: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    config = manifest["server"]["mcp_config"]
    chosen = {name: option["default"] for name, option in manifest["user_config"].items()}
    known = {"${__dirname}": str(folder)} | {f"${{user_config.{name}}}": str(value) for name, value in chosen.items()}
    command = [UV if config["command"] == "uv" else config["command"], *(fill(part, known) for part in config["args"])]
    variables = {name: fill(value, known) for name, value in config["env"].items()}
    with stdio_server(User(tmp_path, Path.home() / ".cache"), command, **variables) as server:
        listed = {tool["name"] for tool in server.ask("tools/list")["result"]["tools"]}
        assert listed == {tool["name"] for tool in manifest["tools"]}
        created = server.call("memory_create", content="The hub is in Ghent")
        assert created["id"] in json.dumps(server.call("memory_search", query="Ghent"))


def fill(text: str, known: Mapping[str, str]) -> str:
    for variable, value in known.items():
        text = text.replace(variable, value)
    assert "${" not in text
    return text
