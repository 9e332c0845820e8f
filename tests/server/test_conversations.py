"""Conversations over REST: what hooks kept and gave is listed, opened, deleted and restored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conversations.sample import keep_conversations
from tests.server.test_rest import Person, cli, signed_in
from tests.wire import Http, http_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("conversations"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def me(server: Http, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Hooks have kept a conversation of each client in the project billing, and one in shop, which was given them."""
    keep_conversations(server.data_dir, tmp_path_factory.mktemp("projects"))
    return signed_in(server, server.link)


def ask(person: Person, path: str, **query: object) -> Any:
    answer = person.ask("GET", path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refs(person: Person, **query: object) -> list[str]:
    return [one["ref"] for one in ask(person, "/api/conversations", **query)["conversations"]]


SHOP, BILLING, CODEX = (
    "conversation:claude-code:in shop",
    "conversation:claude-code:in billing",
    "conversation:codex:in billing",
)


def test_conversations_are_listed_by_project_client_and_day(me: Person) -> None:
    found = ask(me, "/api/conversations")
    assert {one["ref"] for one in found["conversations"]} == {SHOP, BILLING, CODEX}
    assert (found["projects"], found["clients"]) == (
        [{"name": "billing", "count": 2}, {"name": "shop", "count": 1}],
        [{"name": "claude-code", "count": 2}, {"name": "codex", "count": 1}],
    )
    [shop] = ask(me, "/api/conversations", project="shop")["conversations"]
    assert (shop["title"], shop["messages"], shop["given"]) == ("Which database do we use for invoices?", 5, 0)
    assert refs(me, project="billing", client="codex") == [CODEX]
    assert set(refs(me, since="2029-12-30")) == {SHOP, BILLING, CODEX}
    assert refs(me, until="2029-12-29") == []
    pages = [found := ask(me, "/api/conversations", limit=2)]
    while found["next"]:
        pages.append(found := ask(me, "/api/conversations", limit=2, after=found["next"]))
    assert [one["ref"] for page in pages for one in page["conversations"]] == refs(me)


def test_a_conversation_is_opened_in_its_order(server: Http, me: Person) -> None:
    found = ask(me, "/api/conversations/messages", ref=SHOP)
    roles = ["user", "assistant", "tool", "user", "assistant"]
    assert [one["role"] for one in found["messages"]] == roles
    first = ask(me, "/api/conversations/messages", ref=SHOP, limit=3)
    second = ask(me, "/api/conversations/messages", ref=SHOP, limit=3, after=first["next"])
    assert (first["messages"] + second["messages"], second["next"]) == (found["messages"], None)
    assert me.ask("GET", "/api/conversations/messages", params={"ref": "conversation:none"}).status_code == 404
    opened = me.ask("POST", "/api/tools/recall_open", json={"ref": SHOP}).json()
    texts = [opened["content"].index(one["text"]) for one in found["messages"]]
    assert texts == sorted(texts)
    recent = ask(me, "/api/recent", text=True)["writes"]
    assert {(one["ref"], one["family"], one["source"]) for one in recent} >= {(SHOP, "notes", "hook")}
    assert not any(one["ref"].startswith("memory://note/") for one in recent)


def test_what_a_model_was_given_says_when_and_why(me: Person) -> None:
    [prompt, start] = ask(me, "/api/given")["given"]
    assert (prompt["conversation"], prompt["project"], prompt["moment"]) == (
        "conversation:claude-code:new",
        "shop",
        "prompt",
    )
    assert "Which database do we use for invoices?" in {one["title"] for one in prompt["memories"]}
    assert {one["why"] for one in start["memories"]} == {"Last conversations"}
    first = ask(me, "/api/given", limit=1)
    assert (first["given"], ask(me, "/api/given", before=first["next"])["given"]) == ([prompt], [start])
    assert ask(me, "/api/given", ref=SHOP)["given"] == []
    assert ask(me, "/api/hooks/calls") == {"calls": []}  # answered in this process, not by a client's hook


@pytest.mark.parametrize(
    ("ref", "left"), [(SHOP, {BILLING, CODEX}), ("conversations:billing", {SHOP}), ("conversations:", set())]
)
def test_deleting_is_undone(server: Http, me: Person, ref: str, left: set[str]) -> None:
    before = ask(me, "/api/conversations/messages", ref=CODEX)
    deleted = me.ask("POST", "/api/memories/delete", json={"ref": ref})
    assert deleted.json() == {"ref": ref}
    assert set(refs(me)) == left
    assert me.ask("POST", "/api/memories/delete", json={"ref": ref}).status_code in (404, 409)
    assert me.ask("POST", "/api/memories/restore", json={"ref": ref}).json() == {"ref": ref, "lost": None}
    assert ask(me, "/api/conversations/messages", ref=CODEX) == before
    assert me.ask("POST", "/api/memories/restore", json={"ref": ref}).status_code == 404
    logged = ask(me, "/api/mcp/audit", limit=1)["entries"]
    assert logged[0]["details"]["arguments"] == {"ref": ref}


def test_the_command_line_lists_and_deletes_them(server: Http, me: Person, tmp_path: Path) -> None:
    shown = cli(server.data_dir, "list")["memories"]
    assert {(one["ref"], one["title"]) for one in shown} >= {
        (SHOP, "shop, 5 messages: Which database do we use for invoices?")
    }
    assert not any(one["ref"].startswith("memory://note/") for one in shown)
    assert {one["ref"] for one in cli(server.data_dir, "list", "conversations")["conversations"]} == {
        SHOP,
        BILLING,
        CODEX,
    }
    assert [one["event"] for one in cli(server.data_dir, "list", "given")["given"]] == [
        "UserPromptSubmit",
        "SessionStart",
    ]
    undo = cli(server.data_dir, "rm", "conversations:", "--yes")["undo"]
    assert undo.startswith("memory-mcp rm --undo conversations: --data-dir ")
    assert refs(me) == []
    assert cli(server.data_dir, "rm", "--undo", "conversations:")["restored"] is True
    assert set(refs(me)) == {SHOP, BILLING, CODEX}
    assert cli(server.data_dir, "rm", SHOP, "--yes", "--for-good") == {"ref": SHOP, "deleted": True, "undo": None}
    assert me.ask("POST", "/api/memories/restore", json={"ref": SHOP}).status_code == 404
    assert set(refs(me)) == {BILLING, CODEX}
    for_good = {"ref": "conversations:", "for_good": True}
    assert me.ask("POST", "/api/memories/delete", json=for_good).status_code == 200
    assert (refs(me), ask(me, "/api/notes")["notes"], ask(me, "/api/notes", archived=True)["notes"]) == ([], [], [])
