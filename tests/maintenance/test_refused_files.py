"""A family with a damaged or refused file answers `unavailable`, the others serve, and doctor reports the problem."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run
from tests.wire import Stdio, http_server

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "memory.db": ("search_memories", {"query": "tea"}),
    "notes.db": ("memory_search", {"query": "tea"}),
    "_meta.db": ("list_projects", {}),
    "stores.db": ("list_memories", {"store": "s"}),
    "recall.db": ("recall_memories", {"query": "tea"}),
}
OTHER_SHAPE = {
    "memory.db": "CREATE TABLE vault_memories (id INTEGER PRIMARY KEY, key TEXT)",
    "notes.db": "CREATE TABLE notes (id TEXT)",
    "_meta.db": "CREATE TABLE projects (title TEXT)",
}


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, but long enough to look like one" * 100)


def other_shape(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute(OTHER_SHAPE[path.name])


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("furnished") / "data"
    server = Stdio.start(folder, "--embedder", "none")
    server.call("commit_memory", scope="vault", key="k", content="tea")
    server.call("memory_create", content="tea")
    server.call("add_memory", store="s", path="a/b", content="tea")
    server.call("create_project", name="house")
    server.call("create_entities", entities=[{"name": "Ann", "entity_type": "t", "observations": ["tea"]}])
    server.call("recall_memories", query="tea")
    server.close()
    return folder


@pytest.fixture
def data_dir(furnished: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", str(furnished), str(tmp_path / "data")], check=True)
    return tmp_path / "data"


def answer(server: Stdio, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """The error code of a call and its message; empty if it succeeds."""
    response = server.ask("tools/call", {"name": tool, "arguments": arguments})
    if "error" in response:
        return response["error"]["data"]["error"], response["error"]["message"]
    content = response["result"]["structuredContent"]
    return (content["error"], content["message"]) if response["result"].get("isError") else ("", "")


def doctor(data_dir: Path) -> list[dict[str, Any]]:
    done = run("doctor", "--json", "--data-dir", data_dir)
    return [one for one in json.loads(done.stdout)["findings"] if one["state"] == "problem"]


@pytest.mark.parametrize(
    ("file", "damage"), [("memory.db", other_shape), ("notes.db", newer), ("_meta.db", other_shape)]
)
def test_other_families_serve_and_doctor_names_the_file(
    data_dir: Path, file: str, damage: Callable[[Path], None]
) -> None:
    damage(data_dir / file)
    before, copies = (data_dir / file).read_bytes(), set((data_dir / "backups").glob("*"))
    for _ in range(2):
        server = Stdio.start(data_dir, "--embedder", "none")
        answers = {name: answer(server, *call) for name, call in CALLS.items()}
        assert {name for name, (code, _) in answers.items() if code} == {file}
        code, message = answers[file]
        assert code == "unavailable"
        assert "memory-mcp doctor" in message
        assert file not in message
        server.close()
    assert (data_dir / file).read_bytes() == before
    assert set((data_dir / "backups").glob("*")) == copies
    [problem] = [one for one in doctor(data_dir) if one["check"] == "database"]
    assert problem["place"] == file


@pytest.mark.parametrize(("file", "damage"), [("stores.db", garbage), ("recall.db", newer)])
def test_caches_are_rebuilt(data_dir: Path, file: str, damage: Callable[[Path], None]) -> None:
    damage(data_dir / file)
    server = Stdio.start(data_dir, "--embedder", "none")
    assert {name: answer(server, *call) for name, call in CALLS.items()} == dict.fromkeys(CALLS, ("", ""))
    assert server.call("list_memories", store="s", category="a")["count"] == 1
    server.close()


def test_a_damaged_project_does_not_stop_other_projects(data_dir: Path) -> None:
    [path] = (data_dir / "projects").glob("*.db")
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    server = Stdio.start(data_dir, "--embedder", "none")
    assert [one["name"] for one in server.call("list_projects")["projects"]] == ["house"]
    code, message = answer(server, "search_nodes", {"query": "tea", "project": "house"})
    assert (code, path.name in message) == ("unavailable", False)
    server.call("create_project", name="second")
    assert answer(server, "read_graph", {}) == ("", "")
    server.close()
    assert [one["place"] for one in doctor(data_dir)] == [f"projects/{path.name}"]


def test_errors_name_no_file_and_a_repaired_file_serves_without_a_restart(data_dir: Path) -> None:
    whole = (data_dir / "memory.db").read_bytes()
    garbage(data_dir / "memory.db")
    other_shape(data_dir / "notes.db")
    garbage(data_dir / "_meta.db")
    with http_server(data_dir, "--embedder", "none") as http:
        for file, (tool, arguments) in CALLS.items():
            response = http.modern("tools/call", {"name": tool, "arguments": arguments})
            is_refused = "error" in response or bool(response["result"].get("isError"))
            assert is_refused == (file in OTHER_SHAPE), response
            assert ".db" not in json.dumps(response)
            assert str(data_dir) not in json.dumps(response)
        (data_dir / "memory.db").write_bytes(whole)
        assert http.modern_call("search_memories", query="tea")["results"][0]["key"] == "k"
    assert {one["place"] for one in doctor(data_dir) if one["check"] == "database"} == {"notes.db", "_meta.db"}
