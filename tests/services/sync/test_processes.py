"""Servers that sync in the background: real processes that are killed and copied, and agree in the end."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from memory_mcp.services.embedding import model_files
from memory_mcp.services.embedding.builtin import Builtin
from tests.events import eventually
from tests.services.sync.processes import Hub, Node, running_hub
from tests.wire import Http, Stdio, http_server

FLAGS = ("--sync-seconds", "1", "--embedder", "none")
numbers = count()


@pytest.fixture
def nodes(hub: Hub, tmp_path: Path) -> tuple[Path, Path]:
    """Two data directories that sync one user's notes."""
    key = hub.key(f"user{next(numbers)}")
    for name in ("a", "b"):
        Node(tmp_path / name).join(hub, key, "default")
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def start() -> Iterator[Callable[..., Stdio]]:
    """Starts stdio servers, and stops them after the test."""
    started: list[Stdio] = []

    def starting(data_dir: Path, *flags: str) -> Stdio:
        started.append(Stdio.start(data_dir, *(flags or FLAGS)))
        return started[-1]

    yield starting
    for server in started:
        if server.process.poll() is None:
            server.kill()


Starting = Callable[..., Stdio]


def found(server: Stdio | Http, query: str, **more: Any) -> list[dict[str, Any]]:
    call = server.call if isinstance(server, Stdio) else server.modern_call
    hits: list[dict[str, Any]] = call("memory_search", query=query, **more)["memories"]
    return hits


def test_a_stdio_server_and_an_http_server_sync_by_themselves_both_ways(
    nodes: tuple[Path, Path], start: Starting
) -> None:
    one, two = nodes
    stdio = start(one)
    with http_server(two, *FLAGS) as http:
        den = stdio.call("memory_create", title="Wombat Den", content="Where they sleep.")
        plan = stdio.call(
            "memory_create", content="Wombat plans #burrow\n\nSee [[Wombat Den]].", tags=["Digging"], metadata={"n": 1}
        )
        stdio.call("memory_link", source_id=den["id"], target_id=plan["id"])
        eventually(lambda: found(http, "wombat plans", search_mode="lexical"))

        def arrived() -> dict[str, Any] | None:
            note = http.modern_call("memory_get", id=plan["id"], include_links=True)
            ends = {end["id"] for end in note["links"]["outgoing"]}, {end["id"] for end in note["links"]["incoming"]}
            return note if ends == ({den["id"]}, {den["id"]}) else None

        note = eventually(arrived)
        assert note["source"] == "sync"
        assert {"Digging", "burrow", "mcp", "memory", "ns/default"} <= set(note["tags"])
        assert note["metadata"] == {"n": 1}
        assert note["created_at"] == plan["created_at"]

        http.modern_call("memory_update", id=plan["id"], add_tags=["seen"], content="Wombat plans, revised.")
        eventually(lambda: found(stdio, "revised", search_mode="lexical"))
        assert "seen" in stdio.call("memory_get", id=plan["id"])["tags"]
        http.modern_call("memory_delete", id=den["id"], soft=False)
        eventually(lambda: not found(stdio, "sleep", search_mode="lexical"))
        former = stdio.call("memory_get", id=plan["id"], version=1)
        assert former["content"].startswith("Wombat plans #burrow")
    assert stdio.close() == 0


def test_two_servers_on_one_folder_sync_one_at_a_time(nodes: tuple[Path, Path], start: Starting) -> None:
    one, two = nodes
    servers = [start(one), start(one)]
    other = start(two)
    for number in range(10):
        servers[number % 2].call("memory_create", content=f"Numbat number {number}")
    eventually(lambda: len(found(other, "numbat", search_mode="lexical", limit=50)) == 10)
    other.call("memory_create", content="Numbat from afar")
    for server in servers:
        eventually(partial(found, server, "afar", search_mode="lexical"))
    node = _rows(one, "SELECT node FROM sync_node")
    for server in (*servers, other):
        assert server.close() == 0
    assert _rows(one, "SELECT node FROM sync_node") == node  # they were not mistaken for copies of each other
    assert _rows(one, "SELECT count(*) FROM sync_outbox") == [(0,)]


def _rows(data_dir: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{data_dir / 'notes.db'}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def test_a_hub_killed_at_any_time_loses_nothing(tmp_path: Path, start: Starting) -> None:
    with running_hub(tmp_path / "hub") as hub:
        key, port = hub.key(), int(hub.url.rpartition(":")[2])
        for name in ("a", "b"):
            Node(tmp_path / name).join(hub, key, "default")
        one, two = (start(tmp_path / name) for name in ("a", "b"))
        for number in range(20):
            one.call("memory_create", content=f"Bilby number {number}")
            if number == 10:
                hub.stop()
        two.call("memory_create", content="Bilby from afar")
    with running_hub(tmp_path / "hub", port):
        eventually(lambda: len(found(two, "bilby", search_mode="lexical", limit=50)) == 21, 60)
        eventually(lambda: len(found(one, "bilby", search_mode="lexical", limit=50)) == 21, 60)
    for server in (one, two):
        assert server.close() == 0


def test_a_synced_note_is_found_by_meaning(nodes: tuple[Path, Path], start: Starting) -> None:
    if not Builtin(model_files.default_folder()).is_installed():
        pytest.skip("needs the built-in model: memory-mcp models pull")
    one, two = nodes
    flags = ("--sync-seconds", "1", "--embedder", "builtin")
    writer, reader = start(one), start(two, *flags)
    writer.call("memory_create", content="The cat sleeps on the sofa all afternoon.")
    writer.call("memory_create", content="Quarterly revenue grew by ten percent.")

    def by_meaning() -> bool:
        hits = found(reader, "a pet resting on furniture", search_mode="semantic")
        return bool(hits) and "cat" in json.dumps(hits[0])

    eventually(by_meaning)
    for server in (writer, reader):
        assert server.close() == 0


def _has_both(server: Stdio) -> bool:
    return len(found(server, "potoroo", search_mode="lexical")) == 2


def test_a_copied_folder_becomes_its_own_node(nodes: tuple[Path, Path], tmp_path: Path, start: Starting) -> None:
    one, two = nodes
    server = start(one)
    server.call("memory_create", content="Before the copy")
    assert server.close() == 0
    Node(one).run("now")
    copy = tmp_path / "copy"
    copytree(one, copy)
    first, second = start(one), start(copy)
    first.call("memory_create", content="Potoroo of the first")
    second.call("memory_create", content="Potoroo of the second")
    other = start(two)
    for each in (first, second, other):
        eventually(partial(_has_both, each))
    for each in (first, second, other):
        assert each.close() == 0
    assert _rows(one, "SELECT node FROM sync_node") != _rows(copy, "SELECT node FROM sync_node")
