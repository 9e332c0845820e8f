"""New names can be read in a list; names that exist already are found whatever they hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.text.names import hidden_character
from tests.families.stores.calls import write
from tests.families.stores.test_cli import run
from tests.wire import Stdio

HIDDEN = [
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200e",
    "\u00ad",
    "\ufeff",
    "\u3164",
    "\U000e0041",
    "\x07",
    "\x85",
    "a\u200db",
]
READABLE = ["plain", "Zürich", "日本語", "می‌خواهم", "क्‍ष", "👩‍👩‍👧", "❤️", "1️⃣", "עברית", "a b", "naïve-№5"]

NEW: dict[str, tuple[str, dict[str, Any]]] = {
    "path": ("add_memory", {"store": "s", "path": "c{}/d", "content": "c"}),
    "memory tag": ("add_memory", {"store": "s", "path": "a", "content": "c", "tags": ["x{}y"]}),
    "store": ("add_memory", {"store": "s{}s", "path": "a", "content": "c"}),
    "destination": ("move_memory", {"store": "s", "from_path": "there", "to_path": "x{}y"}),
    "vault key": ("commit_memory", {"scope": "vault", "key": "k{}k", "content": "c"}),
    "vault tag": ("commit_memory", {"scope": "vault", "key": "k", "content": "c", "tags": ["x{}y"]}),
    "note tag": ("memory_create", {"content": "c", "tags": ["x{}y"]}),
    "namespace": ("memory_create", {"content": "c", "namespace": "x{}y"}),
    "folder": ("memory_create", {"content": "c", "folder": "x{}y"}),
    "project": ("create_project", {"name": "x{}y"}),
    "entity": ("create_entities", {"project": "p", "entities": [{"name": "x{}y", "entity_type": "t"}]}),
    "entity type": ("create_entities", {"project": "p", "entities": [{"name": "x", "entity_type": "x{}y"}]}),
    "portal": ("portal_write", {"portalUri": "mem://x/y{}z", "table": "t", "data": [{"a": 1}]}),
}


def filled(value: Any, hidden: str) -> Any:
    if isinstance(value, dict):
        return {name: filled(item, hidden) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, hidden) for item in value]
    return value.replace("{}", hidden) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    data_dir = tmp_path_factory.mktemp("names")
    server = Stdio.start(data_dir, "--embedder", "none")
    server.call("add_memory", store="s", path="there", content="c")
    server.call("create_project", name="p")
    write(data_dir / "stores" / "s", "old\u202e/name.md", "from an older version")
    yield server
    server.close()


@pytest.mark.parametrize("what", NEW)
def test_a_new_name_with_a_hidden_character_is_refused(server: Stdio, what: str) -> None:
    tool, arguments = NEW[what]
    for hidden in HIDDEN:
        answer = server.ask("tools/call", {"name": tool, "arguments": filled(arguments, hidden)})
        error = answer["error"]["data"] if "error" in answer else answer["result"]["structuredContent"]
        assert error.get("error") == "invalid", (hidden, answer)


def test_a_name_that_exists_is_found_whatever_it_holds(server: Stdio) -> None:
    assert "old\u202e" in server.call("list_memories", store="s")["subcategories"]
    path = "old\u202e/name"
    assert server.call("get_memory", store="s", path=path)["content"] == "from an older version"
    assert server.call("update_memory", store="s", path=path, content="new")["updated"]
    assert server.call("move_memory", store="s", from_path=path, to_path="old name")["moved"]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(
    ("verb", "flag"), [("keys create", "--name"), ("keys create", "--namespace"), ("users add", "")]
)
def test_keys_and_users_have_names_that_can_be_read(tmp_path: Path, verb: str, flag: str, hidden: str) -> None:
    named = [flag, f"x{hidden}y"] if flag else [f"x{hidden}y"]
    more = ["--name", "n"] if flag == "--namespace" else []
    assert run(*verb.split(), *named, *more, data_dir=tmp_path).returncode in (1, 2)


@pytest.mark.parametrize("name", READABLE)
def test_names_in_all_scripts_and_emoji_are_accepted(server: Stdio, name: str) -> None:
    assert hidden_character(name) is None
    assert server.call("add_memory", store="s", path=f"scripts/{name}", content="c", tags=[name])["created"]
    server.call("commit_memory", scope="vault", key=name, content="c", tags=[name])
    assert server.call("create_entities", project="p", entities=[{"name": name, "entity_type": name}])["entities"]
