"""A first sync of many notes that is killed in the middle continues where it was."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote
from tests.events import TIMEOUT_S, eventually
from tests.processes import Process, run

NOTES = 3000
PAGE = 200
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))


class Node:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def sync(self, *arguments: str) -> dict[str, Any]:
        done = run(*self._command(*arguments), check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def start(self) -> Process:
        return Process(self._command("now"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def fill(self, count: int) -> None:
        chosen = settings.load({"data_dir": self._data_dir, "embedder": "none"}, environ={}).settings
        with open_app(chosen) as app:
            notes = [NewNote(content=f"note {number}") for number in range(count)]
            app.notes.writer.create_all(CALLER, Author("mcp", "test"), notes)

    def count(self, table: str) -> int:
        return count(self._data_dir, "notes.db", table)

    def _command(self, *arguments: str) -> list[object]:
        return ["sync", *arguments, "--json", "--data-dir", self._data_dir]


class Hub:
    """A process on an address that stays the same."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        made = run("keys", "create", "--name", "test", "--json", "--data-dir", data_dir, check=True)
        self.key = str(json.loads(made.stdout)["key"])
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        arguments = ["hub", "--port", self._port, "--data-dir", self._data_dir]
        self._process = Process(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def count(self) -> int:
        return count(self._data_dir, "hub.db", "records")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S):
            return True
        return False


def count(data_dir: Path, name: str, table: str) -> int:
    [path] = data_dir.rglob(name)
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        db.set_busy_timeout(5000)
        [(found,)] = db.execute(f"SELECT count(*) FROM {table}").fetchall()
        assert isinstance(found, int)
        return found


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(tmp_path / "hub")
    yield made
    made.kill()


@pytest.fixture
def nodes(tmp_path: Path, hub: Hub) -> list[Node]:
    """Two that are linked, the first with all the notes."""
    first, second = Node(tmp_path / "first"), Node(tmp_path / "second")
    first.fill(NOTES)
    for node in (first, second):
        node.sync("link", hub.url, "--key", hub.key)
        node.sync("enable", "default")
    return [first, second]


def killed_in_the_middle(node: Node, is_there: Callable[[], bool]) -> None:
    with node.start() as running:
        eventually(lambda: is_there() or running.poll() is not None)
        running.kill()


def test_a_first_sync_continues_after_its_node_is_killed(hub: Hub, nodes: list[Node]) -> None:
    first, second = nodes
    killed_in_the_middle(first, lambda: first.count("sync_outbox") < NOTES - 3 * PAGE)
    left = first.count("sync_outbox")
    assert 0 < left <= NOTES - 3 * PAGE
    assert first.sync("now")["pushed"] == left
    assert hub.count() == NOTES

    killed_in_the_middle(second, lambda: second.count("notes") > 3 * PAGE)
    there = second.count("notes")
    assert 3 * PAGE < there < NOTES
    assert second.sync("now")["pulled"] == NOTES - there
    assert second.count("notes") == NOTES


def test_a_first_sync_continues_after_its_hub_is_killed(hub: Hub, nodes: list[Node]) -> None:
    first, second = nodes
    running = first.start()
    eventually(lambda: hub.count() > 3 * PAGE)
    hub.kill()
    with running:
        assert running.wait(TIMEOUT_S) == 1
        assert running.stderr is not None
        assert "does not answer" in running.stderr.read()
    left = first.count("sync_outbox")
    assert 0 < left <= NOTES - 3 * PAGE
    hub.start()
    assert first.sync("now")["pushed"] == left

    running = second.start()
    eventually(lambda: second.count("notes") > 3 * PAGE)
    hub.kill()
    with running:
        running.wait(TIMEOUT_S)
    there = second.count("notes")
    assert 3 * PAGE < there < NOTES
    hub.start()
    assert second.sync("now")["pulled"] == NOTES - there
    assert second.count("notes") == hub.count() == NOTES
