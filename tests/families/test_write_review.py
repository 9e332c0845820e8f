"""Who wrote what in every family, and undoing it as a group, over stdio and the command line."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.families.stores.folder_scan import MAX_FILE_BYTES
from tests import processes
from tests.processes import environment
from tests.wire import HELLO, Stdio, http_server

FLAGS = ("--embedder", "none")
FAMILIES = ("vault", "notes", "stores", "graph")


class Memory:
    """A data directory, with clients of different names and the command line."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.clients: dict[str, Stdio] = {}

    def client(self, name: str) -> Stdio:
        if name not in self.clients:
            started = Stdio.start(self.data_dir, *FLAGS, hello=False, env=environment())
            started.ask("initialize", HELLO | {"clientInfo": {"name": name, "version": "1"}})
            started.send({"method": "notifications/initialized"})
            self.clients[name] = started
        return self.clients[name]

    def run(self, *arguments: str, code: int = 0) -> Any:
        ran = processes.run(*arguments, "--data-dir", self.data_dir, "--json", env=environment())
        assert ran.returncode == code, ran.stderr
        return json.loads(ran.stdout if code == 0 else ran.stderr)

    def run_incomplete(self, *arguments: str) -> Any:
        """Of a command that answers and says with its status that something is missing."""
        ran = processes.run(*arguments, "--data-dir", self.data_dir, "--json", env=environment())
        assert ran.returncode == 1, ran.stderr
        return json.loads(ran.stdout)

    def writes(self, *options: str) -> list[tuple[str, str, str, str]]:
        """(family, client, action, title), the oldest first."""
        found = self.run("writes", "list", *options)["writes"]
        return [(one["family"], one["client"], one["action"], one["title"]) for one in reversed(found)]

    def undo(self, *options: str) -> Any:
        return self.run("writes", "undo", "--yes", *options)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "data")
    yield made
    for client in made.clients.values():
        client.close()


def poison(client: Stdio) -> str:
    """Something new in every family. Returns the id of the note."""
    client.call("commit_memory", scope="vault", key="bank", content="account 666")
    client.call("add_memory", store="home", path="money/bank", content="account 666")
    client.call("create_project", name="family")
    people = [
        {"name": "Berta", "entity_type": "person", "observations": ["banks at 666"]},
        {"name": "X", "entity_type": "y"},
    ]
    client.call("create_entities", project="family", entities=people)
    relation = {"from": "Berta", "to": "X", "relation_type": "trusts"}
    client.call("create_relations", project="family", relations=[relation])
    return str(client.call("memory_create", content="The account is 666")["id"])


def found(client: Stdio, query: str = "account 666") -> set[str]:
    hits = client.call("recall_memories", query=query)["hits"]
    return {hit["family"] for hit in hits}


def test_every_family_says_who_wrote(memory: Memory) -> None:
    poison(memory.client("mallory"))
    memory.client("alice").call("commit_memory", scope="vault", key="tea", content="green")
    assert memory.writes() == [
        ("vault", "mallory", "created", "bank"),
        ("stores", "mallory", "created", "home/money/bank"),
        ("graph", "mallory", "created", "Berta (person)"),
        ("graph", "mallory", "created", "X (y)"),
        ("graph", "mallory", "created", "Berta: banks at 666"),
        ("graph", "mallory", "created", "Berta trusts X"),
        ("notes", "mallory", "created", "The account is 666"),
        ("vault", "alice", "created", "tea"),
    ]
    assert memory.writes("--client", "Alice") == [("vault", "alice", "created", "tea")]
    assert memory.writes("--client", "alice", "--family", "notes") == []
    assert memory.writes("--until", "2001-01-01") == []
    groups = memory.run("writes", "list", "--groups")["groups"]
    assert [(one["client"], one["source"], one["count"], one["families"]) for one in groups] == [
        ("alice", "mcp", 1, {"vault": 1}),
        ("mallory", "mcp", 7, {"vault": 1, "notes": 1, "stores": 1, "graph": 4}),
    ]


def test_a_clients_writes_are_undone_and_the_undo_taken_back(memory: Memory) -> None:
    mallory, alice = memory.client("mallory"), memory.client("alice")
    alice.call("commit_memory", scope="vault", key="tea", content="green")
    note = poison(mallory)
    assert found(alice) == set(FAMILIES)

    planned = memory.run("writes", "undo", "--client", "mallory", "--dry-run")
    assert (planned["undo_id"], planned["deleted"], planned["left"]) == (None, 7, 0)
    assert found(alice) == set(FAMILIES)

    undone = memory.undo("--client", "mallory")
    assert (undone["deleted"], undone["restored"], undone["left"]) == (7, 0, 0)
    assert found(alice) == set()
    assert alice.call("search_memories", query="green")["total_searched"] == 1
    assert alice.call("read_graph", project="family")["entities"] == []
    assert alice.call("memory_get", id=note)["archived"] is True
    assert not (memory.data_dir / "stores/home/money/bank.md").exists()

    assert memory.undo("--client", "mallory")["deleted"] == 0  # it is undone already
    back = memory.undo("--undo", undone["undo_id"])
    assert (back["deleted"], back["restored"], back["left"]) == (0, 7, 0)
    assert found(alice) == set(FAMILIES)
    assert len(alice.call("read_graph", project="family")["relations"]) == 1
    assert memory.undo("--client", "mallory")["deleted"] == 7  # and can be undone again
    assert found(alice) == set()


def test_changes_and_deletions_are_undone(memory: Memory) -> None:
    alice, mallory = memory.client("alice"), memory.client("mallory")
    note = poison(alice)
    alice.call("memory_update", id=note, add_tags=["money"], importance=0.9)
    file = memory.data_dir / "stores/home/money/bank.md"
    text = file.read_text()
    before = alice.call("memory_get", id=note)

    mallory.call("commit_memory", scope="vault", key="bank", content="account 777")
    mallory.call("prune_memory", scope="vault", key="bank")
    mallory.call("update_memory", store="home", path="money/bank", content="account 777")
    mallory.call("move_memory", store="home", from_path="money/bank", to_path="gone")
    mallory.call("remove_memory", store="home", path="gone")
    mallory.call("delete_entities", project="family", entity_names=["Berta"])
    mallory.call("memory_update", id=note, content="The account is 777 #theft", namespace="away", tags=[])
    mallory.call("memory_delete", id=note)
    assert found(alice) == set()

    undone = memory.undo("--client", "mallory")
    assert (undone["left"], undone["deleted"]) == (0, 0), undone["items"]
    assert found(alice) == set(FAMILIES)
    assert file.read_text() == text
    nodes = alice.call("open_nodes", project="family", names=["Berta"])
    assert nodes["entities"][0]["observations"] == ["banks at 666"]
    assert len(nodes["relations"]) == 1
    after = alice.call("memory_get", id=note)
    changing = {"version", "updated_at", "last_referenced_at"}
    assert {k: v for k, v in after.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }


def test_what_others_changed_later_is_left_alone_and_named(memory: Memory) -> None:
    mallory, alice = memory.client("mallory"), memory.client("alice")
    note = poison(mallory)
    alice.call("commit_memory", scope="vault", key="bank", content="account 123")
    alice.call("add_observations", project="family", observations=[{"entity_name": "Berta", "contents": ["is 60"]}])
    alice.call("memory_update", id=note, content="The account is 123")
    (memory.data_dir / "stores/home/money/bank.md").write_text("by hand")

    undone = memory.undo("--client", "mallory")
    left = {(one["family"], one["title"]): one["why"] for one in undone["items"] if one["outcome"] == "left"}
    assert left == {
        ("vault", "bank"): "it was changed later by alice",
        ("notes", "The account is 123"): "it was changed later by alice",
        ("stores", "home/money/bank"): "it was changed later by another program",
        ("graph", "Berta (person)"): "others have added observations or relations to it",
    }
    assert alice.call("search_memories", query="123")["results"][0]["content"] == "account 123"
    assert alice.call("open_nodes", project="family", names=["Berta"])["entities"][0]["observations"] == ["is 60"]
    assert (memory.data_dir / "stores/home/money/bank.md").read_text() == "by hand"


def test_answers_say_who_wrote(memory: Memory) -> None:
    mallory, alice = memory.client("mallory"), memory.client("alice")
    note = poison(mallory)
    alice.call("add_observations", project="family", observations=[{"entity_name": "Berta", "contents": ["666 is 60"]}])
    alice.call("commit_memory", scope="vault", key="666", content="account")
    hits = alice.call("recall_memories", query="account 666", limit=20)["hits"]
    assert {hit["ref"]: hit["origin"] for hit in hits} == {
        "memory://vault/bank": "mallory",
        "memory://vault/666": "alice",
        f"memory://note/{note}": "mallory",
        "stores:home/money/bank": "mallory",
        "graph:family/Berta": "mallory; alice",
    }
    assert alice.call("recall_open", ref="graph:family/Berta")["origin"] == "mallory; alice"
    read = alice.call("memory_get", id=note)
    assert (read["client"], "origin" in read) == ("mallory", False)
    assert alice.call("memory_search", query="account")["memories"][0]["origin"] == "mallory"
    assert alice.call("get_memory", store="home", path="money/bank")["origin"] == "mallory"
    for answer in (
        alice.call("open_nodes", project="family", names=["Berta"]),
        alice.call("search_nodes", project="family", query="banks"),
    ):
        assert [one["origin"] for one in answer["entities"]] == ["mallory; alice"]
    read_all = alice.call("read_graph", project="family")
    assert {one["name"]: one["origin"] for one in read_all["entities"]} == {"Berta": "mallory; alice", "X": "mallory"}


def test_lists_and_resources_say_who_wrote(memory: Memory) -> None:
    mallory, alice = memory.client("mallory"), memory.client("a" * 100)
    note = poison(mallory)
    mine = str(alice.call("memory_create", content="Mine")["id"])
    alice.call("add_memory", store="home", path="money/tea", content="green")
    alice.call("commit_memory", scope="vault", key="tea", content="green")
    short = "a" * 59 + "…"  # one of many

    assert {one["id"]: one["origin"] for one in alice.call("memory_recent")["memories"]} == {
        note: "mallory",
        mine: short,
    }
    listed = alice.call("list_memories", store="home", category="money")["memories"]
    recent = alice.call("cortex_get_recent_memories", store="home")["memories"]
    assert {one["path"]: one["origin"] for one in listed} == {"money/bank": "mallory", "money/tea": short}
    assert {one["path"]: one["origin"] for one in recent} == {"money/bank": "mallory", "money/tea": short}

    def meta(uri: str) -> Any:
        (content,) = alice.ask("resources/read", {"uri": uri})["result"]["contents"]
        assert "origin" not in content["text"]  # the specification has its shape
        return content["_meta"]

    assert meta("memory://vault/bank")["memory-mcp/origin"] == "mallory"
    assert meta("memory://vault")["memory-mcp/origins"] == {"bank": "mallory", "tea": short}
    for uri in ("memory://recent", "memory://namespace/default"):
        (content,) = alice.ask("resources/read", {"uri": uri})["result"]["contents"]
        assert {one["id"]: one["origin"] for one in json.loads(content["text"])} == {note: "mallory", mine: short}


def test_tables_say_who_wrote_and_rows_are_undone(memory: Memory) -> None:
    mallory, alice = memory.client("mallory"), memory.client("alice")
    uri = "mem://family/money"
    mallory.call("portal_write", portalUri=uri, table="accounts", data=[{"text": "account 666"}])
    alice.call("portal_write", portalUri=uri, table="accounts", data=[{"text": "account 123"}, {"text": "tea"}])
    both = "alice; mallory"
    hits = alice.call("recall_memories", query="account 666")["hits"]
    assert [(hit["ref"], hit["origin"]) for hit in hits[:1]] == [(f"{uri}/accounts", both)]
    assert alice.call("recall_open", ref=f"{uri}/accounts")["origin"] == both
    assert [one["origin"] for one in alice.call("portal_view", portalUri=uri)["tables"]] == [both]
    for address in (uri, f"{uri}/accounts", f"{uri}/accounts?limit=1"):
        (content,) = alice.ask("resources/read", {"uri": address})["result"]["contents"]
        assert content["_meta"]["memory-mcp/origin"] == both

    assert memory.writes() == [
        ("portals", "mallory", "created", "family/money/accounts"),
        ("portals", "alice", "updated", "family/money/accounts"),
    ]
    listed = memory.run("writes", "list", "--family", "portals")["writes"]
    assert [(one["rows"], one["ref"]) for one in listed] == [(2, f"{uri}/accounts"), (1, f"{uri}/accounts")]
    planned = memory.run("writes", "undo", "--client", "mallory", "--dry-run")
    undone = memory.undo("--client", "mallory")
    assert planned["items"] == undone["items"]
    assert [undone[name] for name in ("deleted", "restored", "left", "rows_deleted", "rows_restored")] == [
        0,
        0,
        0,
        1,
        0,
    ]
    (item,) = undone["items"]
    assert (item["ref"], item["outcome"], item["rows"], item["why"]) == (f"{uri}/accounts", "delete", 1, None)
    texts = [row["text"] for row in alice.call("portal_query", portalUri=uri, sql="SELECT text FROM accounts")["rows"]]
    assert sorted(texts) == ["account 123", "tea"]
    assert "666" not in json.dumps(alice.call("recall_memories", query="account 666")["hits"])
    back = memory.undo("--undo", undone["undo_id"])
    assert (back["rows_restored"], back["items"][0]["outcome"]) == (1, "restore")
    assert "666" in json.dumps(alice.call("recall_memories", query="account 666")["hits"])


def test_links_are_undone(memory: Memory) -> None:
    alice, mallory = memory.client("alice"), memory.client("mallory")
    ids = [str(alice.call("memory_create", content=f"Note {n}")["id"]) for n in range(3)]
    alice.call("memory_link", source_id=ids[0], target_id=ids[1])
    mallory.call("memory_link", source_id=ids[1], target_id=ids[2])
    mallory.call("memory_unlink", source_id=ids[0], target_id=ids[1])
    mallory.call("memory_update", id=ids[2], supersedes=[ids[0]])

    assert memory.undo("--client", "mallory")["left"] == 0
    links = alice.call("memory_get", id=ids[1], include_links=True)["links"]
    assert ([one["id"] for one in links["incoming"]], links["outgoing"]) == ([ids[0]], [])
    assert alice.call("memory_get", id=ids[0])["superseded_by"] is None


def test_what_is_deleted_for_good_leaves_no_copy(memory: Memory) -> None:
    alice = memory.client("alice")
    note = poison(alice)
    alice.call("commit_memory", scope="vault", key="bank", content="changed")
    alice.call("update_memory", store="home", path="money/bank", content="changed")
    alice.call("add_memory", store="home", path="draft", content="account 666")
    alice.call("move_memory", store="home", from_path="draft", to_path="later")
    alice.call("update_memory", store="home", path="later", content="changed")
    alice.call("move_memory", store="home", from_path="later", to_path="last")
    for ref in (
        "stores:home/last",
        "memory://vault/bank",
        "stores:home/money/bank",
        f"memory://note/{note}",
    ):
        memory.run("rm", ref, "--for-good", "--yes")
    alice.close()
    memory.clients.clear()
    for name in ("memory.db", "store_writes.db", "notes.db"):
        stored = b"".join(path.read_bytes() for path in memory.data_dir.glob(f"{name}*"))
        assert not re.search(rb"account (is )?666", stored), name
        copies = [b64decode(text) for text in re.findall(rb'"content": "([\w+/]+=*)"', stored)]
        assert not any(b"account" in copy for copy in copies), name
    undone = memory.undo("--source", "cli")
    assert {one["why"] for one in undone["items"]} == {"no copy of its former state is kept"}


def test_a_file_that_cannot_be_read_is_left_alone(memory: Memory) -> None:
    poison(memory.client("mallory"))
    (memory.data_dir / "stores/home/money/bank.md").write_bytes(b"x" * 2 * MAX_FILE_BYTES)
    undone = memory.undo("--client", "mallory")
    assert (undone["deleted"], undone["left"]) == (6, 1)
    assert {one["title"] for one in undone["items"] if one["outcome"] == "left"} == {"home/money/bank"}


def test_a_damaged_project_is_named_and_the_others_are_reviewed_and_undone(memory: Memory) -> None:
    mallory = memory.client("mallory")
    mallory.call("create_project", name="damaged")
    mallory.close()
    memory.clients.clear()
    (file,) = (memory.data_dir / "projects").glob("*.db")
    poison(memory.client("mallory"))
    file.write_bytes(b"x" * 8192)
    for options in (("list",), ("list", "--groups"), ("undo", "--client", "mallory", "--dry-run")):
        found = memory.run_incomplete("writes", *options)
        assert list(found["incomplete"]) == ["graph:damaged"]
    undone = memory.run_incomplete("writes", "undo", "--client", "mallory", "--yes")
    assert (undone["deleted"], undone["left"], list(undone["incomplete"])) == (7, 0, ["graph:damaged"])
    assert undone["undo"]


def test_origins_need_no_other_project_than_that_of_the_memory(memory: Memory) -> None:
    mallory = memory.client("mallory")
    mallory.call("create_project", name="damaged")
    (file,) = (memory.data_dir / "projects").glob("*.db")
    poison(mallory)
    mallory.close()
    memory.clients.clear()
    file.write_bytes(b"x" * 8192)
    assert memory.client("mallory").call("recall_open", ref="graph:family/Berta")["origin"] == "mallory"


def test_an_undo_needs_a_choice_and_a_yes(memory: Memory) -> None:
    poison(memory.client("mallory"))
    assert memory.run("writes", "undo", "--yes", code=2)["error"] == "invalid"
    assert "mcp, ui, cli" in memory.run("writes", "list", "--source", "web", code=2)["message"]
    refused = memory.run("writes", "undo", "--client", "mallory", code=1)
    assert "--yes" in refused["message"]
    assert found(memory.client("mallory")) == set(FAMILIES)


def test_writes_over_http_name_the_key_and_stay_with_their_user(memory: Memory) -> None:
    keys = {name: memory.run("keys", "create", "--name", name) for name in ("laptop", "phone")}
    memory.run("users", "add", "ann")
    anns = memory.run("keys", "create", "--name", "anns", "--user", "ann")
    with http_server(memory.data_dir, *FLAGS) as server:
        for key in (keys["laptop"], keys["phone"], anns):
            server.key = key["key"]
            server.modern_call("commit_memory", scope="vault", key=key["name"], content="account 666")
        session = server.handshake({"name": "cursor", "version": "1"})
        server.legacy(session, "tools/call", {"name": "memory_create", "arguments": {"content": "Ann's own"}})
        found = memory.run("writes", "list")["writes"]
        assert [(one["title"], one["client"], one["key_name"], one["key_id"]) for one in found] == [
            ("phone", "wire", "phone", keys["phone"]["id"]),
            ("laptop", "wire", "laptop", keys["laptop"]["id"]),
        ]
        hers = memory.run("writes", "list", "--user", "ann")["writes"]
        assert [(one["title"], one["client"], one["key_name"]) for one in hers] == [
            ("Ann's own", "cursor", "anns"),
            ("anns", "wire", "anns"),
        ]
        for way in (keys["phone"]["id"], "phone", keys["phone"]["key_prefix"]):
            assert memory.writes("--key", way) == [("vault", "wire", "created", "phone")]
        undone = memory.undo("--key", "phone")
        assert (undone["deleted"], undone["left"]) == (1, 0)
        server.key = keys["laptop"]["key"]
        kept = server.modern_call("recall_memories", query="account", families=["vault"])["hits"]
        assert [(one["title"], one["origin"]) for one in kept] == [("laptop", "wire with key laptop")]
