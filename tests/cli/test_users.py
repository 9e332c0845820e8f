import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import processes
from tests.wire import Http, http_server


def run(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run(*arguments, "--data-dir", data_dir)


def made(data_dir: Path, *arguments: str) -> dict[str, Any]:
    done = run(data_dir, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def key_of(server: Http, user: str, *more: str) -> Http:
    issued = made(server.data_dir, "keys", "create", "--name", "test", "--user", user, *more)
    return replace(server, key=issued["key"])


def test_users_are_added_listed_and_removed_with_their_keys(tmp_path: Path) -> None:
    ann = made(tmp_path, "users", "add", "ann")
    made(tmp_path, "keys", "create", "--name", "laptop", "--user", "ann")
    assert [user["name"] for user in made(tmp_path, "users", "list")["users"]] == ["local", "ann"]
    assert [key["user"] for key in made(tmp_path, "keys", "list")["keys"]] == ["ann"]

    removed = made(tmp_path, "users", "remove", "ann")
    assert (removed["id"], removed["removed"], removed["data"]) == (ann["id"], True, None)
    assert made(tmp_path, "keys", "list") == {"keys": []}


def test_taken_and_invalid_names_are_refused(tmp_path: Path) -> None:
    made(tmp_path, "users", "add", "ann")
    for name in ("ann", "ANN", "local", "a b", "../x", "", "x" * 65):
        done = run(tmp_path, "users", "add", name)
        assert done.returncode == 1, name
        assert done.stderr.startswith("memory-mcp: ")
    assert run(tmp_path, "users", "remove", "local").returncode == 1
    assert run(tmp_path, "users", "remove", "stranger").returncode == 1
    assert run(tmp_path, "keys", "create", "--name", "x", "--user", "stranger").returncode == 1


def test_a_removed_users_data_stays_without_delete_data(tmp_path: Path) -> None:
    made(tmp_path, "users", "add", "ann")
    with http_server(tmp_path) as server:
        key_of(server, "ann").modern_call("commit_memory", scope="vault", key="k", content="hers")
    removed = made(tmp_path, "users", "remove", "ann")
    assert (Path(removed["data"]) / "memory.db").exists()

    made(tmp_path, "users", "add", "bob")
    with http_server(tmp_path) as server:
        key_of(server, "bob").modern_call("commit_memory", scope="vault", key="k", content="his")
    removed = made(tmp_path, "users", "remove", "bob", "--delete-data")
    assert removed["data"] is None


def test_a_keys_namespace_is_the_default_for_notes(tmp_path: Path) -> None:
    with http_server(tmp_path, "--embedder", "none") as server:
        work = key_of(server, "local", "--namespace", "work")
        assert work.modern_call("memory_create", content="a note")["namespace"] == "work"
        assert work.modern_call("memory_create", content="another", namespace="home")["namespace"] == "home"
        assert server.modern_call("memory_create", content="a third")["namespace"] == "default"


def test_a_user_sees_nothing_of_another(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        made(tmp_path, "users", "add", name)
    with http_server(tmp_path, "--embedder", "none") as server:
        ann, bob = key_of(server, "ann"), key_of(server, "bob")
        ann.modern_call("add_memory", store="s", path="secret", content="wombat")
        ann.modern_call("create_project", name="house")
        refused = bob.modern("tools/call", {"name": "get_memory", "arguments": {"store": "s", "path": "secret"}})
        assert refused["error"]["data"]["error"] == "store_not_registered"
        assert bob.modern_call("list_projects")["projects"] == []
