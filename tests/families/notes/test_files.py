"""Notes as files, processes and users share them: nothing is lost, left behind or shown to others."""

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from mcp import Client

from memory_mcp import settings
from memory_mcp.app import App, open_access
from memory_mcp.caller import LOCAL_USER, Scope
from memory_mcp.engines.sqlite import SqliteWrite
from memory_mcp.errors import Invalid
from memory_mcp.families.notes.family import notes
from memory_mcp.server import arguments
from tests.families.notes.calls import call, create, delete, file, update
from tests.wire import HELLO, Http, Stdio, http_server, kill_after

FLAGS = "--embedder", "none", "--families", "notes"
TABLES = "note_tags", "note_links", "note_wikilinks", "note_versions", "note_vectors", "embed_queue"
KILLS = 6


@pytest.fixture
def database_url() -> None:
    """All of this is about SQLite files."""


def check(connection: apsw.Connection) -> None:
    """The file and its full-text index are whole, and every live note is in the index."""
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.execute("INSERT INTO notes_words (notes_words, rank) VALUES ('integrity-check', 1)")
    indexed = connection.execute("SELECT id FROM notes_words_docsize ORDER BY id").fetchall()
    assert indexed == connection.execute("SELECT seq FROM notes WHERE archived = 0 ORDER BY seq").fetchall()


@pytest.mark.anyio
async def test_a_hard_delete_leaves_no_row_behind(client: Client, app: App) -> None:
    kept = await create(client, "kept [[Gone]]", title="Kept")
    gone = await create(client, "gone wombat #tag [[Kept]]", title="Gone", tags=["own"], supersedes=[kept["id"]])
    await update(client, gone, content="changed wombat #tag [[Kept]]")
    await call(client, "memory_link", source_id=gone["id"], target_id=kept["id"], bidirectional=True)
    with file(app).write() as tx:
        [(seq,)] = tx.all("SELECT seq FROM notes WHERE id = :id", {"id": gone["id"]})
        for part in (-1, 0):
            tx.all("INSERT INTO note_vectors VALUES (:seq, :part, x'00000000')", {"seq": seq, "part": part})

    await delete(client, gone, soft=False)
    with file(app).read() as tx:
        for table in TABLES:
            columns = [name for _, name, *_ in tx.all(f"PRAGMA table_info({table})")]
            for column in {"note_seq", "source_seq", "target_seq", "note_id"} & set(columns):
                assert tx.all(f"SELECT * FROM {table} WHERE {column} = {seq}") == [], (table, column)
        assert tx.all("SELECT rowid FROM notes_words WHERE notes_words MATCH 'wombat OR changed'") == []
        assert tx.all("SELECT superseded_by, previous FROM notes") == [(None, None)]
    with file(app).write() as tx:
        assert isinstance(tx, SqliteWrite)
        check(tx.connection)


@pytest.mark.anyio
async def test_the_word_index_stays_consistent(client: Client, app: App) -> None:
    written = [await create(client, f"note {number}", tags=["t"]) for number in range(6)]
    for number, note in enumerate(written):
        await update(client, note, content=f"changed {number}", title=f"t{number}")
    await delete(client, written[0])
    await delete(client, written[1], soft=False)
    await update(client, written[2], namespace="elsewhere")
    await delete(client, written[3])
    await update(client, written[3], remove_tags=["archived"])

    with file(app).write() as tx:
        assert isinstance(tx, SqliteWrite)
        check(tx.connection)


@pytest.mark.anyio
async def test_a_refused_write_leaves_nothing(client: Client, app: App) -> None:
    for arguments_ in ({"supersedes": ["unknown"]}, {"tags": ["a,b"]}, {"expires_at": "never"}):
        result = await client.call_tool("memory_create", {"content": "x #y [[z]]", **arguments_})
        assert result.is_error
    with file(app).read() as tx:
        for table in ("notes", *TABLES):
            assert tx.all(f"SELECT * FROM {table}") == []


def test_a_lone_surrogate_is_not_text() -> None:
    for given in (
        {"content": "\ud800"},
        {"content": "x", "tags": ["\udc00"]},
        {"content": "x", "metadata": {"\ud800": 1}},
    ):
        with pytest.raises(Invalid):
            arguments.parse(notes.tools["memory_create"], given)


# Processes


def refused(server: Stdio, tool: str, **given: Any) -> dict[str, Any]:
    """The error of a call that must fail, by the tool or by the protocol."""
    answer = server.ask("tools/call", {"name": tool, "arguments": given})
    if "error" in answer:
        return {"message": answer["error"]["message"], **answer["error"]["data"]}
    assert answer["result"]["isError"], str(answer)[:300]
    return dict(answer["result"]["structuredContent"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    running = Stdio.start(tmp_path_factory.mktemp("alone"), *FLAGS)
    yield running
    running.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"content": "c", "k" * 300_000: 1},
        {"content": "c", "metadata": {"k" * 300_000: float("inf")}},
        {"content": "c", "metadata": {"k" * 300_000: "x" * 2**20 + "x"}},
    ],
)
def test_a_refusal_quotes_little_of_what_was_sent(alone: Stdio, arguments: dict[str, Any]) -> None:
    answer = alone.ask("tools/call", {"name": "memory_create", "arguments": arguments})
    assert "kkk" in json.dumps(answer)
    assert len(json.dumps(answer)) < 2000


def test_a_lone_surrogate_on_the_wire_is_refused(alone: Stdio) -> None:
    answer = refused(alone, "memory_create", content="\ud800")

    assert answer["error"] == "invalid"
    assert "surrogate" in answer["message"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_are_refused(alone: Stdio, number: float) -> None:
    assert refused(alone, "memory_create", content="c", importance=number)["data"] == {"field": "importance"}
    assert refused(alone, "memory_create", content="c", metadata={"number": number})["error"] == "invalid"


def test_deeply_nested_metadata_is_refused(alone: Stdio) -> None:
    def nested(depth: int) -> Any:
        return json.loads('{"a":' * depth + "1" + "}" * depth)

    note = alone.call("memory_create", content="c", metadata=nested(50))
    assert alone.call("memory_get", id=note["id"])["metadata"] == nested(50)

    answer = refused(alone, "memory_create", content="c", metadata=nested(220))
    assert answer["error"] == "invalid"
    assert "surrogate" not in answer["message"]


def start(data_dir: Path, count: int) -> list[Stdio]:
    """Start all of them before the first has answered: they meet at the new files."""
    servers = [Stdio.start(data_dir, *FLAGS, hello=False) for _ in range(count)]
    for server in servers:
        server.ask("initialize", HELLO)
        server.send({"method": "notifications/initialized"})
    return servers


def next_change(server: Stdio) -> str:
    """The next change that its client is notified of."""
    message = server.receive()
    return str(message.get("params", {}).get("uri", message["method"]))


def test_two_servers_see_each_others_notes_at_once(tmp_path: Path) -> None:
    one, two = start(tmp_path, 2)

    watched = {"memory://namespace/work", "memory://tag/ns%2Fwork", "memory://recent"}
    for uri in watched:
        two.ask("resources/subscribe", {"uri": uri})
    note = one.call("memory_create", content="written by one", title="Plan", namespace="work")
    assert {next_change(two) for _ in range(4)} == {*watched, "notifications/resources/list_changed"}
    assert two.call("memory_get", id=note["id"])["content"] == "written by one"
    assert [hit["id"] for hit in two.call("memory_search", query="written")["memories"]] == [note["id"]]
    source = two.call("memory_create", content="see [[Plan]]", namespace="work")
    assert one.call("memory_neighbors", id=note["id"])["edges"] == [
        {"source_id": source["id"], "target_id": note["id"]}
    ]
    changed = two.call("memory_update", id=note["id"], content="changed by two", add_tags=["t"])
    assert one.call("memory_search", query="changed")["memories"][0]["id"] == note["id"]
    assert one.call("memory_update", id=note["id"], importance=1)["version"] == changed["version"] + 1 == 3
    two.call("memory_delete", id=note["id"], soft=False)
    assert refused(one, "memory_get", id=note["id"])["error"] == "not_found"
    assert one.call("memory_search", query="changed")["memories"] == []
    assert one.close() == two.close() == 0


def test_no_write_of_many_processes_is_lost(tmp_path: Path) -> None:
    servers = start(tmp_path, 8)
    shared = servers[0].call("memory_create", content="shared", metadata={})
    failed: list[object] = []

    def write(number: int, server: Stdio) -> None:
        try:
            for count in range(25):
                server.call("memory_create", content=f"note {number}-{count} [[shared]]", tags=[f"by{number}"])
            server.call("memory_update", id=shared["id"], metadata_patch={str(number): True}, add_tags=[f"by{number}"])
        except (AssertionError, EOFError) as exc:
            failed.append(exc)

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    last = servers[-1].call("memory_get", id=shared["id"], include_links=True)
    assert last["metadata"] == {str(number): True for number in range(8)}
    assert last["version"] == 9
    assert {f"by{number}" for number in range(8)} <= set(last["tags"])
    assert len(last["links"]["incoming"]) == 200
    stats = servers[0].call("memory_stats")
    assert (stats["total"], len(stats["top_tags"])) == (201, 10)
    for server in servers:
        assert server.close() == 0
    check(apsw.Connection(str(tmp_path / "notes.db")))


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    chance = random.Random(1)
    for round_ in range(KILLS):
        server = Stdio.start(tmp_path, *FLAGS)
        killer = kill_after(server, chance.randint(1, 60))
        try:
            for count in range(10_000):
                note = server.call("memory_create", content=f"note {round_}-{count} #tag [[note 0-0]]", tags=["t"])
                acknowledged[note["id"]] = note["content"]
                changed = server.call("memory_update", id=note["id"], content=f"changed {round_}-{count}")
                acknowledged[note["id"]] = changed["content"]
        except (EOFError, BrokenPipeError, ValueError):
            pass  # the killer was here; half a line is no answer
        killer.join()
        server.kill()

    Stdio.start(tmp_path, *FLAGS).close()
    connection = apsw.Connection(str(tmp_path / "notes.db"))
    kept = dict(connection.execute("SELECT id, content FROM notes"))
    assert len(acknowledged) > KILLS
    assert acknowledged.keys() <= kept.keys()
    lost = [id_ for id_, content in acknowledged.items() if not is_or_follows(kept[id_], content)]
    assert lost == []
    tags = connection.execute("SELECT count(*) FROM note_tags WHERE tag = 't'").fetchall()
    assert tags == [(len(kept),)]
    check(connection)


def is_or_follows(kept: str, acknowledged: str) -> bool:
    """A change that was on its way when the killer came may have arrived."""
    return kept == acknowledged or (acknowledged.startswith("note ") and kept.startswith("changed "))


# Over HTTP


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("notes"), *FLAGS) as running:
        yield running


def key_of(server: Http, user: str, *scopes: Scope) -> Http:
    """The server as another user sees it."""
    loaded = settings.load({"data_dir": server.data_dir}, environ={})
    with open_access(loaded.settings) as access:
        known = {one.name: one for one in access.users.all()}
        owner = known.get(user) or access.users.add(user)
        made = access.keys.create(name=user, user=owner.id, scopes=frozenset(scopes or Scope))
    return replace(server, key=made.raw)


def legacy_call(server: Http, session: str, tool: str, **given: Any) -> dict[str, Any]:
    answer = server.legacy(session, "tools/call", {"name": tool, "arguments": given})
    return dict(answer["result"]["structuredContent"])


def test_over_http_the_client_is_known_in_both_eras(server: Http) -> None:
    info = {"name": "Claude Desktop", "version": "1"}
    session = server.handshake(info)
    legacy = legacy_call(server, session, "memory_create", content="legacy", namespace="eras")
    modern = server.modern_call(
        "memory_create", {"io.modelcontextprotocol/clientInfo": info}, content="modern", namespace="eras"
    )

    for note in (legacy, modern):
        assert note["tags"] == ["mcp", "memory", "claude-desktop", "ns/eras"]
        assert note["client"] == "claude-desktop"
    assert server.modern_call("memory_stats", namespace="eras")["top_clients"] == [
        {"name": "claude-desktop", "count": 2}
    ]


def raw(server: Http, method: str, params: dict[str, Any]) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    session = {"mcp-session-id": server.handshake()}
    return server.client.post("/mcp", json=body, headers=server.headers(**session)).content


def test_another_users_note_looks_like_a_missing_one(server: Http) -> None:
    ada, bob = key_of(server, "ada"), key_of(server, "bob")
    hers = ada.modern_call("memory_create", content="secret wombat", title="Secret", tags=["hush"], namespace="private")
    his = bob.modern_call("memory_create", content="see [[Secret]]", namespace="private")
    assert hers["user_id"] != his["user_id"]
    missing = "00000000-0000-4000-8000-000000000000"

    for tool, given in (
        ("memory_get", {"id": "ID"}),
        ("memory_get", {"id": "ID", "version": 1, "include_links": True}),
        ("memory_update", {"id": "ID", "importance": 1}),
        ("memory_delete", {"id": "ID"}),
        ("memory_delete", {"id": "ID", "soft": False}),
        ("memory_neighbors", {"id": "ID"}),
        ("memory_link", {"source_id": his["id"], "target_id": "ID"}),
        ("memory_link", {"source_id": "ID", "target_id": his["id"]}),
        ("memory_unlink", {"source_id": his["id"], "target_id": "ID"}),
        ("memory_create", {"content": "c", "supersedes": ["ID"]}),
    ):
        answer = [
            raw(bob, "tools/call", {"name": tool, "arguments": json.loads(json.dumps(given).replace("ID", id_))})
            for id_ in (hers["id"], missing)
        ]
        assert b"not_found" in answer[0]
        assert answer[0] == answer[1], tool
    read = [raw(bob, "resources/read", {"uri": f"memory://note/{id_}"}).replace(id_.encode(), b"ID")
            for id_ in (hers["id"], missing)]  # fmt: skip
    assert b"not_found" in read[0]
    assert read[0] == read[1]

    assert bob.modern_call("memory_search", query="secret wombat", tags=["hush"])["memories"] == []
    assert [note["id"] for note in bob.modern_call("memory_recent")["memories"]] == [his["id"]]
    assert bob.modern_call("memory_get", id=his["id"], include_links=True)["links"]["dangling"] == ["Secret"]
    assert bob.modern_call("memory_stats")["total"] == 1
    assert "hush" not in str(bob.modern_call("memory_list_tags"))
    assert hers["id"] not in str(bob.modern("resources/list"))
    assert ada.modern_call("memory_get", id=hers["id"])["version"] == 1
    assert (server.data_dir / "users" / hers["user_id"] / "notes.db").exists()


def test_another_user_is_not_notified_of_changes(server: Http) -> None:
    ada, bob = key_of(server, "ada2"), key_of(server, "bob2")
    session = bob.handshake()
    bob.legacy(session, "resources/subscribe", {"uri": "memory://recent"})
    with bob.client.stream("GET", "/mcp", headers=bob.headers(**{"mcp-session-id": session})) as stream:
        ada.modern_call("memory_create", content="hers", namespace="hers")
        bob.modern_call("memory_create", content="his")
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        answer = [next(lines), next(lines)]
    assert {json.loads(line.removeprefix("data: "))["method"] for line in answer} == {
        "notifications/resources/updated",
        "notifications/resources/list_changed",
    }


def test_a_read_only_key_can_only_read(server: Http) -> None:
    reader = key_of(server, LOCAL_USER, Scope.READ)

    tools = {tool["name"] for tool in reader.modern("tools/list")["result"]["tools"]}
    assert len(tools) == 7
    answer = reader.modern("tools/call", {"name": "memory_create", "arguments": {"content": "c"}})["result"]
    assert answer["isError"] is True
    assert answer["structuredContent"]["error"] == "scope_required"
    assert answer["structuredContent"]["data"] == {"scope": "write_memory"}
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
