"""A slow or broken family does not affect the others, and the index of recall may be lost at any time."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.recall import operations
from memory_mcp.families.recall.model import RecallQuery
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.services.search_index import index as search_index
from memory_mcp.services.sessions import Connection, Session
from tests.conftest import Clock
from tests.events import eventually
from tests.families.notes.calls import call
from tests.families.recall.calls import FAMILIES, ask, checked, recall, refs, write_everywhere
from tests.families.stores.calls import register, write
from tests.processes import COMMAND, environment
from tests.wire import Stdio

TEAPOT = "the teapot is blue"
CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
SESSION = Session("s", Connection(LOCAL_USER, "s"))

pytestmark = pytest.mark.anyio


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "SEARCH_TIMEOUT_S", 1.0)
    monkeypatch.setattr(operations, "INDEX_TIMEOUT_S", 0.4)


@pytest.fixture
def stuck() -> Any:
    """Something that hangs until the test is over."""
    over = threading.Event()
    yield lambda *_, **__: over.wait(60)
    over.set()


def missing(answer: dict[str, Any]) -> dict[str, str]:
    return {one["family"]: one["error"] for one in answer["incomplete"]}


def remove(file: Path) -> None:
    for path in [*file.parent.glob(f"{file.name}-*"), file]:
        path.unlink(missing_ok=True)


def damage(file: Path) -> None:
    remove(file)
    file.write_bytes(b"no database, and long enough to be taken for one" * 50)


# Families


@pytest.mark.parametrize("family", ["notes", "stores"])
async def test_a_family_that_hangs_is_named_and_the_others_answer_in_time(
    client: Client, app: App, stuck: Callable[..., Any], hasty: None, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    kept = await write_everywhere(client, TEAPOT)
    monkeypatch.setitem(app.recall._find, family, stuck)
    for _ in range(2):
        answer = await recall(client, "teapot")
        assert missing(answer)[family] == operations.TOO_SLOW
        assert family not in answer["searched"]
    if len(answer["incomplete"]) == 1:
        assert {hit["ref"] for hit in answer["hits"]} == {ref for own, ref in kept.items() if own != family}


async def test_a_partly_indexed_family_is_searched(
    client: Client, app: App, stuck: Callable[..., Any], hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await write_everywhere(client, TEAPOT)
    while (await recall(client, "teapot"))["incomplete"]:
        pass
    monkeypatch.setattr(app.recall._indexers["stores"], "_update_index", stuck)
    for _ in range(3):
        answer = await recall(client, "teapot")
        assert missing(answer)["stores"] == operations.STILL_INDEXING
    assert kept["stores"] in {hit["ref"] for hit in answer["hits"]}
    running = [thread for thread in threading.enumerate() if thread.name == "recall"]
    assert len(running) < 6, "each search that waits must not leave another thread behind"


async def test_a_family_that_fails_is_named_and_its_error_is_not(
    client: Client, app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = await write_everywhere(client, TEAPOT)

    def broken(*_: object) -> None:
        raise RuntimeError("secret insides")

    monkeypatch.setitem(app.recall._find, "graph", broken)
    monkeypatch.setattr(app.recall._indexers["vault"], "_update_index", broken)
    answer = await recall(client, "teapot")
    assert missing(answer) == {"vault": operations.FAILED, "graph": operations.FAILED}
    assert {hit["ref"] for hit in answer["hits"]} == {kept["notes"], kept["stores"]}
    assert "secret insides" in caplog.text


async def test_a_damaged_file_of_a_family_is_named_and_stays_indexed(client: Client, tmp_path: Path) -> None:
    kept = await write_everywhere(client, TEAPOT)
    project = await call(client, "create_project", name="another")
    entity = {"name": "two", "entity_type": "thing", "observations": [TEAPOT]}
    await call(client, "create_entities", project="another", entities=[entity])
    assert set(await refs(client, "teapot")) == {*kept.values(), "graph:another/two"}
    damage(tmp_path / "projects" / f"{project['id']}.db")
    new = {"name": "three", "entity_type": "thing", "observations": ["a wombat"]}
    await call(client, "create_entities", project="house", entities=[new])
    answer = await recall(client, "wombat")
    assert [hit["ref"] for hit in answer["hits"]] == ["graph:house/three"]
    assert set(missing(answer)) == {"graph"}
    assert (tmp_path / "recall.db").exists()
    again = await recall(client, "teapot")
    assert set(kept.values()) <= {hit["ref"] for hit in again["hits"]}


async def test_without_an_engine_portals_are_named(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = await write_everywhere(client, TEAPOT)
    portal = tmp_path / "portals" / "tests" / "talk"
    portal.mkdir(parents=True)
    (portal / "portal.json").write_text('{"tables": null}')
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    answer = await recall(client, "teapot")
    assert set(missing(answer)) == {"portals"}
    assert {hit["ref"] for hit in answer["hits"]} == set(kept.values())


# The file of the index


async def test_a_deleted_index_is_rebuilt(client: Client, tmp_path: Path) -> None:
    kept = await write_everywhere(client, TEAPOT)
    assert set(await refs(client, "teapot")) == set(kept.values())
    remove(tmp_path / "recall.db")
    assert set(await refs(client, "teapot")) == set(kept.values())


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
async def test_a_damaged_index_is_rebuilt(client: Client, app: App, tmp_path: Path, when: str) -> None:
    kept = await write_everywhere(client, TEAPOT)
    if when == "while it runs":
        assert len(await refs(client, "teapot")) == 4
    damage(tmp_path / "recall.db")
    for _ in range(5):
        answer = await recall(client, "teapot")
        if not answer["incomplete"]:
            break
        assert set(missing(answer).values()) == {search_index.REBUILDING}
    assert {hit["ref"] for hit in answer["hits"]} == set(kept.values())


async def test_an_index_damaged_inside_is_rebuilt(client: Client, tmp_path: Path) -> None:
    kept = await write_everywhere(client, TEAPOT)
    assert len(await refs(client, "teapot")) == 4
    with sqlite3.connect(tmp_path / "recall.db") as db:
        db.execute("DELETE FROM text_words_data WHERE id > 10")
    answers = [await recall(client, "teapot") for _ in range(3)]
    assert {hit["ref"] for hit in answers[-1]["hits"]} == set(kept.values())
    assert answers[-1]["incomplete"] == []


# Processes


async def test_two_threads_that_index_the_same_text_do_not_conflict(client: Client, app: App) -> None:
    """What another process added a moment ago is not added again."""
    await write_everywhere(client, TEAPOT)
    indexer = app.recall._indexers["vault"]
    threads = [threading.Thread(target=indexer._update_index, args=(CALLER,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert await refs(client, "teapot", families=["vault"]) == ["memory://vault/one"]


def test_two_processes_index_the_same_at_once(tmp_path: Path) -> None:
    with filled(tmp_path, 600):
        pass
    servers = [Stdio.start(tmp_path, "--embedder", "none") for _ in range(2)]
    for server in servers:
        server.post("tools/call", {"name": "recall_memories", "arguments": {"query": "number 17", "limit": 5}})
    for server in servers:
        while "id" not in (answer := server.receive()):
            pass
        found = checked(answer["result"]["structuredContent"])
        assert set(missing(found).values()) <= {operations.STILL_INDEXING, operations.TOO_SLOW}
    for server in servers:
        assert ask(server, "number 17")[0]["ref"] == "memory://vault/17"
        assert server.close() == 0
    assert indexed(tmp_path) == 600


def test_a_server_killed_while_indexing_leaves_no_damage(tmp_path: Path) -> None:
    with filled(tmp_path, 1000):
        pass
    for _ in range(2):
        server = Stdio.start(tmp_path, "--embedder", "none")
        before = indexed(tmp_path)
        server.post("tools/call", {"name": "recall_memories", "arguments": {"query": "number 17"}})
        eventually(lambda before=before: indexed(tmp_path) != before)  # type: ignore[misc]
        server.process.send_signal(signal.SIGKILL)
        server.kill()
    server = Stdio.start(tmp_path, "--embedder", "none")
    assert ask(server, "number 999")[0]["ref"] == "memory://vault/999"
    assert server.close() == 0
    assert indexed(tmp_path) == 1000


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_indexing_server_stops_when_its_client_leaves(tmp_path: Path) -> None:
    with filled(tmp_path, 10_000):
        pass
    server = Stdio.start(tmp_path, "--embedder", "none")
    server.post("tools/call", {"name": "recall_memories", "arguments": {"query": "number 17"}})
    eventually(lambda: indexed(tmp_path))
    with closing(sqlite3.connect(tmp_path / "recall.db", timeout=60, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the server cannot finish
        assert server.close() == 0
        assert indexed(tmp_path) < 10_000


def test_a_program_ends_although_a_family_hangs(tmp_path: Path) -> None:
    script = f"""
import threading
from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.families.recall import operations
from tests.families.recall.test_trouble import CALLER, SESSION, RecallQuery
operations.SEARCH_TIMEOUT_S, operations.INDEX_TIMEOUT_S, operations.STOP_TIMEOUT_S = 0.3, 0.2, 0.1
with open_app(settings.load({{"data_dir": {str(tmp_path)!r}, "embedder": "none"}}, environ={{}}).settings) as app:
    app.recall._indexers["vault"]._update_index = lambda caller: threading.Event().wait()
    app.recall._find["notes"] = lambda *_: threading.Event().wait()
    print(len(app.recall.recall(CALLER, SESSION, RecallQuery("x")).incomplete) >= 2)
"""
    done = subprocess.run(
        [COMMAND[0], "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True\n"


# Size


async def test_a_large_store_is_named_until_it_is_indexed(
    client: Client, app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "INDEX_TIMEOUT_S", 0.05)
    for number in range(1000):
        write(elsewhere, f"{number % 10}/{number}.md", f"number {number}\n")
    register(app, elsewhere, "mine")
    answer = await recall(client, "number 999")
    assert missing(answer)["stores"] == operations.STILL_INDEXING
    monkeypatch.setattr(operations, "INDEX_TIMEOUT_S", 50.0)
    answer = await recall(client, "number 999")
    assert missing(answer) == {}
    assert answer["hits"][0]["ref"] == "stores:mine/9/999"


def test_a_warm_search_over_many_is_quick(tmp_path: Path) -> None:
    with filled(tmp_path, 2000) as app:
        question = RecallQuery("number 17")
        app.recall.recall(CALLER, SESSION, question)
        began = time.process_time()
        found = app.recall.recall(CALLER, SESSION, question)
        assert time.process_time() - began < 1
    assert found.hits[0].ref == "memory://vault/17"
    assert found.incomplete == []


def filled(data_dir: Path, count: int) -> Any:
    """A server on a vault with many memories, without its indexes of anything else."""
    loaded = settings.load({"data_dir": data_dir, "embedder": "none", "durability": "normal"}, environ={})
    opened = open_app(loaded.settings, clock=Clock(), serving=False)

    class Filled:
        def __enter__(self) -> App:
            app = opened.__enter__()
            with app.vault._tenants.database(LOCAL_USER).write() as tx:
                from memory_mcp.families.vault import storage

                for number in range(count):
                    storage.upsert(tx, "s", NewMemory("vault", str(number), f"this is number {number}"))
            return app

        def __exit__(self, *error: Any) -> None:
            opened.__exit__(*error)

    return Filled()


def indexed(data_dir: Path) -> int:
    """How many texts of the vault, as any other program sees them."""
    try:
        with sqlite3.connect(f"file:{data_dir / 'recall.db'}?mode=ro", uri=True) as db:
            return int(
                db.execute(
                    "SELECT count(*) FROM texts JOIN text_groups ON group_id = text_groups.id WHERE name GLOB 'vault/*'"
                ).fetchone()[0]
            )
    except sqlite3.OperationalError:  # it is not there yet
        return 0
