"""Stores as a process serves them: what a person's edits, a git checkout and a repository's other folders do."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.families.stores.calls import indexes, settle, tree, write
from tests.families.stores.test_cli import run
from tests.wire import Stdio

OLD = "2024-05-01T10:00:00Z"
AT_NOON = 1_750_000_000 * 10**9  # 2025-06-15T15:06:40Z
NOON = "2025-06-15T15:06:40Z"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wire")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Stdio]:
    server = Stdio.start(data_dir, "--families", "stores", "--durability", "normal")
    yield server
    server.close()


@pytest.fixture
def store(data_dir: Path, elsewhere: Path) -> str:
    """A registered folder, by its name."""
    name = elsewhere.name
    assert run("stores", "add", name, str(elsewhere), data_dir=data_dir).returncode == 0
    return name


def refusal(server: Stdio, tool: str, **arguments: Any) -> dict[str, Any]:
    data: dict[str, Any] = server.ask("tools/call", {"name": tool, "arguments": arguments})["error"]["data"]
    return data


def recent(server: Stdio, store: str) -> dict[str, str | None]:
    """When each memory was updated, the latest first."""
    found = server.call("cortex_get_recent_memories", store=store, limit=100)["memories"]
    return {one["path"]: one["updated_at"] for one in found}


def edit(file: Path, text: str, at_ns: int = AT_NOON) -> None:
    """What a person saves, at a time."""
    file.write_text(text, encoding="utf-8", newline="")
    os.utime(file, ns=(at_ns, at_ns))


def noted(text: str, updated_at: str = OLD) -> str:
    return f"---\nupdated_at: {updated_at}\n---\n{text}\n"


# index.yaml in a repository


def test_reindexing_writes_only_where_a_memory_lies_below(server: Stdio, store: str, elsewhere: Path) -> None:
    for path in ("README.md", "docs/guide/a.md"):
        write(elsewhere, path)
    for path in ("src/app/main.py", "empty/x.txt", "node_modules/left-pad/README.md", ".github/ISSUE.md", ".git/HEAD"):
        write(elsewhere, path)
    untouched = {path: tree(elsewhere / path) for path in ("src", "empty", "node_modules", ".github", ".git")}
    answer = server.call("reindex_store", store=store)
    assert (answer["memories"], answer["categories"]) == (3, 2)
    assert indexes(elsewhere) == {".", "docs", "docs/guide"}
    assert {path: tree(elsewhere / path) for path in untouched} == untouched


def test_an_index_of_a_category_that_became_empty_is_corrected(server: Stdio, store: str, elsewhere: Path) -> None:
    file = write(elsewhere, "a/b.md")
    write(elsewhere, "top.md")
    server.call("reindex_store", store=store)
    file.unlink()
    server.call("reindex_store", store=store)
    assert "a/b" not in (elsewhere / "a" / "index.yaml").read_text(encoding="utf-8")


# Edited by hand


def test_a_file_that_a_person_edited_counts_as_updated(server: Stdio, store: str, elsewhere: Path) -> None:
    for name in ("a", "b", "plain"):
        settle(write(elsewhere, f"{name}.md", "as it was" if name == "plain" else noted(name)))
    assert recent(server, store) == {"a": OLD, "b": OLD, "plain": None}
    edit(elsewhere / "b.md", noted("edited"))
    edit(elsewhere / "plain.md", "edited", AT_NOON + 60 * 10**9)
    for _ in range(2):
        assert recent(server, store) == {"plain": "2025-06-15T15:07:40Z", "b": NOON, "a": OLD}
        listed = server.call("list_memories", store=store)["memories"]
        assert {one["path"]: one["updated_at"] for one in listed} == recent(server, store)
    assert server.call("get_memory", store=store, path="b")["metadata"]["updated_at"] == NOON
    edit(elsewhere / "a.md", noted("a, again"), AT_NOON + 120 * 10**9)
    got = server.call("get_memory", store=store, path="a")  # before any list has seen the edit
    assert got["metadata"]["updated_at"] == "2025-06-15T15:08:40Z"


def test_an_agents_update_counts_by_its_own_time(server: Stdio, store: str, elsewhere: Path) -> None:
    settle(write(elsewhere, "a.md", noted("a")))
    recent(server, store)
    edit(elsewhere / "a.md", noted("edited"))
    assert recent(server, store) == {"a": NOON}
    server.call("update_memory", store=store, path="a", content="by an agent")
    stated = (elsewhere / "a.md").read_text(encoding="utf-8").split("updated_at: '")[1].split("'")[0]
    assert recent(server, store) == {"a": stated}
    assert server.call("get_memory", store=store, path="a")["metadata"]["updated_at"] == stated


def git(folder: Path, *arguments: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    command = ["git", "-c", "init.defaultBranch=main", "-c", "core.hooksPath=/dev/null", *arguments]
    subprocess.run(command, cwd=folder, env=os.environ | who, check=True, capture_output=True)


def test_a_git_checkout_makes_nothing_new(server: Stdio, store: str, elsewhere: Path) -> None:
    for name in ("a", "b", "c"):
        write(elsewhere, f"{name}.md", noted(name) if name != "c" else "plain")
    git(elsewhere, "init")
    git(elsewhere, "add", "-A")
    git(elsewhere, "commit", "-m", "first")
    settle(*elsewhere.glob("*.md"))
    before = recent(server, store)
    assert before == {"a": OLD, "b": OLD, "c": None}
    git(elsewhere, "checkout", "-b", "other")
    write(elsewhere, "a.md", noted("changed on a branch", "2024-06-01T00:00:00Z"))
    (elsewhere / "b.md").unlink()
    write(elsewhere, "c.md", "changed on a branch")
    git(elsewhere, "commit", "-am", "second")
    assert recent(server, store)["a"] == "2024-06-01T00:00:00Z"
    git(elsewhere, "checkout", "main")
    assert recent(server, store) == before
    for name in ("a", "b", "c"):  # what a fresh clone or a checkout with other line ends leaves
        text = (elsewhere / f"{name}.md").read_text(encoding="utf-8")
        edit(elsewhere / f"{name}.md", text.replace("\n", "\r\n"))
    assert recent(server, store) == before


def test_moving_an_edited_memory_keeps_when_it_was_updated(server: Stdio, store: str, elsewhere: Path) -> None:
    settle(write(elsewhere, "a.md", noted("a")))
    recent(server, store)
    edit(elsewhere / "a.md", noted("edited"))
    assert recent(server, store) == {"a": NOON}
    server.call("move_memory", store=store, from_path="a", to_path="deep/er/b")
    assert recent(server, store) == {"deep/er/b": NOON}
    (elsewhere / "deep" / "er" / "b.md").rename(elsewhere / "deep" / "er" / "c.md")
    assert recent(server, store) == {"deep/er/c": NOON}


# Answers that can be requested again


@pytest.mark.parametrize("with_all", [False, True])
@pytest.mark.parametrize("category", [None, "", "a", "a/", "a/b", "all"])
def test_the_category_of_an_answer_can_be_requested_again(
    server: Stdio, store: str, elsewhere: Path, category: str | None, with_all: bool
) -> None:
    for path in ("top.md", "a/x.md", "a/b/y.md", *(["all/z.md"] if with_all else [])):
        write(elsewhere, path)
    arguments = {} if category is None else {"category": category}
    for tool in ("list_memories", "cortex_get_recent_memories"):
        first = server.call(tool, store=store, **arguments)
        assert server.call(tool, store=store, category=first["category"]) == first
    listed = server.call("list_memories", store=store, **arguments)
    expected = {"a": ["a/x"], "a/b": ["a/b/y"], "all": ["all/z"] if with_all else ["top"]}
    assert [one["path"] for one in listed["memories"]] == expected.get((category or "").rstrip("/"), ["top"])


def test_an_expiry_date_without_a_time_ends_with_that_day(server: Stdio, store: str, elsewhere: Path) -> None:
    server.call("add_memory", store=store, path="by-tool", content="c", expires_at="2030-01-31")
    write(elsewhere, "by-hand.md", "---\nexpires_at: 2030-01-31\n---\nc\n")
    for path in ("by-tool", "by-hand"):
        metadata = server.call("get_memory", store=store, path=path)["metadata"]
        assert metadata["expires_at"] == "2030-01-31T23:59:59.999Z"
    server.call("update_memory", store=store, path="by-tool", expires_at="2030-01-31T08:00:00Z")
    assert server.call("get_memory", store=store, path="by-tool")["metadata"]["expires_at"] == "2030-01-31T08:00:00Z"


def test_a_refused_move_names_the_argument_to_blame(server: Stdio, store: str, elsewhere: Path) -> None:
    write(elsewhere, "a.md")
    write(elsewhere, "b.md")
    moves = {
        ("none", "c"): ("not_found", "from_path"),
        ("none/x", "c"): ("not_found", "from_path"),
        ("none", "none"): ("not_found", "from_path"),
        ("../a", "c"): ("invalid", "from_path"),
        ("a", "b"): ("conflict", "to_path"),
        ("a", "a"): ("conflict", "to_path"),
        ("a", "b.md/c"): ("conflict", "to_path"),
        ("a", "../c"): ("invalid", "to_path"),
    }
    before = tree(elsewhere)
    for (source, target), (word, field) in moves.items():
        data = refusal(server, "move_memory", store=store, from_path=source, to_path=target)
        assert (data["error"], data["field"]) == (word, field), (source, target)
    assert tree(elsewhere) == before
    (elsewhere / "a.md").rename(elsewhere / "A.md")
    assert server.call("move_memory", store=store, from_path="A", to_path="a")["moved"]
