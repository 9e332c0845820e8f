"""Reviewing and undoing writes over REST: by whom, in whose memory, and with which scopes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.test_rest import Person, cli, signed_in
from tests.wire import Http, http_server

FLAGS = ("--embedder", "none")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Http]:
    with http_server(tmp_path, *FLAGS) as running:
        yield running


@pytest.fixture
def me(server: Http) -> Person:
    return signed_in(server, server.link)


def commit(server: Http, key: dict[str, Any], content: str) -> None:
    server.key = key["key"]
    server.modern_call("commit_memory", scope="vault", key="bank", content=content)


def post(person: Person, what: str, **wanted: Any) -> Any:
    answer = person.ask("POST", f"/api/journal/{what}", json=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


def fact(person: Person) -> str:
    answer = person.ask("GET", "/api/open", params={"ref": "memory://vault/bank"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["content"])


def test_a_keys_writes_are_listed_previewed_undone_and_the_undo_undone(server: Http, me: Person) -> None:
    laptop, phone = me.new_key(name="laptop"), me.new_key(name="phone")
    commit(server, laptop, "account 1")
    commit(server, phone, "account 666")
    groups = me.ask("GET", "/api/journal/groups").json()["groups"]
    assert [(one["by"], one["count"], one["families"]) for one in groups] == [
        ("wire with key phone", 1, {"vault": 1}),
        ("wire with key laptop", 1, {"vault": 1}),
    ]
    found = me.ask("GET", "/api/journal", params={"key": phone["id"]}).json()["writes"]
    assert [(one["action"], one["title"], one["undone"]) for one in found] == [("updated", "bank", False)]

    planned = post(me, "preview", key="phone")
    assert (planned["undo_id"], planned["restored"], fact(me)) == (None, 1, "account 666")
    undone = post(me, "undo", key="phone")
    assert (undone["restored"], undone["left"], fact(me)) == (1, 0, "account 1")
    assert me.audit()[0]["action"] == "writes_undone"
    taken_back = post(me, "undo", undo_id=undone["undo_id"])
    assert (taken_back["restored"], fact(me)) == (1, "account 666")
    again = post(me, "undo", undo_id=taken_back["undo_id"])
    assert (again["restored"], fact(me)) == (1, "account 1")
    assert me.ask("GET", "/api/journal", params={"keyless": "true"}).json()["writes"][0]["by"] == "web app"
    assert len(me.ask("GET", "/api/journal", params={"source": "mcp"}).json()["writes"]) == 2


def test_single_writes_are_undone_by_their_ids(server: Http, me: Person) -> None:
    commit(server, me.new_key(name="laptop"), "account 1")
    commit(server, me.new_key(name="phone"), "account 2")
    last, first = me.ask("GET", "/api/journal").json()["writes"]
    assert post(me, "undo", ids=[first["id"]])["items"][0]["why"] == "it was changed later by wire with key phone"
    assert post(me, "undo", ids=[last["id"]])["restored"] == 1
    assert fact(me) == "account 1"


def test_another_users_writes_do_not_exist(server: Http, me: Person) -> None:
    commit(server, me.new_key(name="laptop"), "account 1")
    [mine] = me.ask("GET", "/api/journal").json()["writes"]
    cli(server.data_dir, "users", "add", "ann")
    ann = signed_in(server, cli(server.data_dir, "users", "link", "ann")["link"])
    assert ann.ask("GET", "/api/journal").json() == {"writes": [], "incomplete": {}}
    assert ann.ask("GET", "/api/journal/groups").json() == {"groups": [], "incomplete": {}}
    for wanted in ({"ids": [mine["id"]]}, {"client": "wire"}, {"key": mine["key_id"]}):
        refused = ann.ask("POST", "/api/journal/undo", json=wanted)
        assert (refused.status_code, refused.json()["error"]) == (404, "not_found")
        planned = post(ann, "preview", **wanted)
        assert (planned["deleted"], planned["restored"], planned["left"], planned["items"]) == (0, 0, 0, [])
    assert fact(me) == "account 1"


@pytest.mark.parametrize("options", [{}, {"namespace": "work", "confined": True}, {"scopes": ["read_memory"]}])
def test_no_key_reviews_or_undoes(server: Http, me: Person, options: dict[str, Any]) -> None:
    """The journal spans namespaces and families: it is for a person who is signed in."""
    commit(server, me.new_key(name="laptop"), "account 1")
    key = me.new_key(name="other", **options)
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key['key']}"}) as client:
        for answer in (
            client.get("/api/journal"),
            client.get("/api/journal/groups"),
            client.post("/api/journal/preview", json={"client": "wire"}),
            client.post("/api/journal/undo", json={"client": "wire"}),
        ):
            assert answer.status_code == 401, answer.text
    assert fact(me) == "account 1"


def test_a_server_that_only_reads_previews_and_does_not_undo(tmp_path: Path) -> None:
    cli(tmp_path, "add", "The account is 666", "--family", "vault", "--key", "bank")
    with http_server(tmp_path, *FLAGS, "--auth", "none", "--scopes", "read-only") as server:
        assert len(server.client.get("/api/journal").json()["writes"]) == 1
        assert server.client.post("/api/journal/preview", json={"source": "cli"}).json()["deleted"] == 1
        refused = server.client.post("/api/journal/undo", json={"source": "cli"})
        assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")


def test_an_undo_needs_a_choice_of_writes_that_can_be(server: Http, me: Person) -> None:
    for wanted in (
        {},
        {"unnamed": False},
        {"source": "web"},
        {"family": "recall"},
        {"ids": ["vault:x"]},
        {"since": "?"},
    ):
        assert me.ask("POST", "/api/journal/undo", json=wanted).status_code == 422


def test_writes_to_tables_are_listed_with_their_rows_and_undone(server: Http, me: Person) -> None:
    key = me.new_key(name="phone")
    server.key = key["key"]
    server.modern_call("portal_write", portalUri="mem://a/b", table="t", data=[{"x": 1}, {"x": 2}])
    found = me.ask("GET", "/api/journal", params={"family": "portals"}).json()["writes"]
    assert [(one["by"], one["action"], one["rows"], one["title"], one["ref"]) for one in found] == [
        ("wire with key phone", "created", 2, "a/b/t", "mem://a/b/t")
    ]
    recent = me.ask("GET", "/api/recent", params={"text": "true", "family": "portals"}).json()["writes"]
    assert [one["origin"] for one in recent] == ["wire with key phone"]
    rows = {"outcome": "delete", "rows": 2, "ref": "mem://a/b/t", "title": "a/b/t", "family": "portals", "why": None}
    assert post(me, "preview", key="phone")["items"] == [rows]
    undone = post(me, "undo", key="phone")
    assert (undone["items"], undone["deleted"], undone["rows_deleted"]) == ([rows], 0, 2)
    assert me.audit()[0]["details"]["rows_deleted"] == 2
    assert [one["undone"] for one in me.ask("GET", "/api/journal").json()["writes"]] == [False, True]
    back = post(me, "undo", undo_id=undone["undo_id"])
    assert (back["restored"], back["rows_restored"]) == (0, 2)
    assert server.modern_call("portal_view", portalUri="mem://a/b")["tables"][0]["rows"] == 2
