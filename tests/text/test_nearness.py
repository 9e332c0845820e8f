"""Errors for unknown names give the nearest ones, and only those that the caller may see."""

from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller, Scope
from memory_mcp.errors import NotFound
from memory_mcp.families.registry import FAMILIES
from memory_mcp.server.protocol import McpServer
from memory_mcp.text.nearness import did_you_mean, nearest, not_found, seen_by
from tests.conftest import connected
from tests.families.notes.calls import refusal as tool_refusal
from tests.families.vault.calls import call, refusal

pytestmark = pytest.mark.anyio
ANYONE = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("wrok", ["home", "work", "default"], ["work"]),
        ("Work", ["work"], ["work"]),
        ("my_project", ["my-project", "mine"], ["my-project"]),
        ("garden", ["garden notes", "kitchen"], ["garden notes"]),
        ("mem://wrk/sales", ["mem://home/people", "mem://work/sales"], ["mem://work/sales"]),
        ("quokka", ["work", "home"], []),
        ("a", [], []),
        ("---", ["--", "x"], ["--"]),
        ("note", ["note4", "note2", "note3", "note1"], ["note2", "note3", "note4"]),
    ],
)
def test_the_nearest_names(name: str, known: list[str], found: list[str]) -> None:
    assert sorted(nearest(name, known)) == found


def test_the_words() -> None:
    assert did_you_mean([]) == ""
    assert did_you_mean(["a"]) == "Did you mean 'a'?"
    assert did_you_mean(["a", "b", "c"]) == "Did you mean 'a', 'b' or 'c'?"
    error = not_found("There is no x.", "wrok", seen_by(ANYONE, lambda: ["work"]), field="name")
    assert (error.message, error.data) == (
        "There is no x. Did you mean 'work'?",
        {"field": "name", "nearest": ["work"]},
    )


def test_a_caller_who_may_not_read_gets_no_names() -> None:
    writer = Caller(LOCAL_USER, frozenset({Scope.WRITE}), frozenset(FAMILIES))
    for caller in (writer, None):
        known = seen_by(caller, lambda: pytest.fail("not for this caller"))
        error = not_found("There is no x.", "wrok", known, field="name")
        assert (error.message, error.data) == ("There is no x.", {"field": "name"})


async def test_a_store(client: Client) -> None:
    await call(client, "add_memory", store="garden", path="a", content="c")
    error = (await refusal(client, "list_memories", store="gardn")).error
    assert error.message.startswith("The store 'gardn' is not registered. Did you mean 'garden'? ")
    assert error.data == {"error": "store_not_registered", "field": "store", "nearest": ["garden"]}
    error = (await refusal(client, "list_memories", store="quokka")).error
    assert error.data == {"error": "store_not_registered", "field": "store"}


async def test_a_project(client: Client) -> None:
    await call(client, "create_project", name="web-shop")
    for tool, field in (("switch_project", "name"), ("read_graph", "project")):
        error = await tool_refusal(client, tool, **{field: "webshop"})
        assert error["data"] == {"field": field, "nearest": ["web-shop"]}
        assert "Did you mean 'web-shop'?" in error["message"]


def portal(app: App, uri: str, caller: Caller = ANYONE) -> NotFound:
    with pytest.raises(NotFound) as caught:
        app.opened["portals"].operations.view(caller, uri)
    return caught.value


def test_a_portal(app: App) -> None:
    portals = app.opened["portals"].operations
    for uri in ("mem://work/sales", "mem://home/sales-2026"):
        portals.write(ANYONE, uri, "table", [{"a": 1}], None, None)
    assert portal(app, "mem://work/sale").data["nearest"][0] == "mem://work/sales"
    assert "Did you mean 'mem://home/sales-2026'" in portal(app, "mem://home/sales2026").message
    with pytest.raises(NotFound) as caught:
        portals.delete(ANYONE, "mem://work/sales", "tabel", None, confirm=True)
    assert caught.value.data == {"field": "table", "nearest": ["table"]}
    confined = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES), namespace="home", is_confined=True)
    assert portal(app, "mem://home/sales", confined).data["nearest"] == ["mem://home/sales-2026"]
    assert "nearest" not in portal(app, "mem://work/sale", confined).data


async def test_a_namespace(client: Client) -> None:
    await call(client, "memory_create", content="c", namespace="work")
    wanted = "There are no notes in the namespace 'wrok'. Did you mean 'work'?"
    for tool, more in (("memory_search", {"query": "c"}), ("memory_recent", {}), ("memory_list_tags", {})):
        assert (await call(client, tool, namespace="wrok", **more))["notice"] == wanted
        assert "notice" not in await call(client, tool, namespace="work", **more)
    assert (await call(client, "memory_stats", namespace="wrok"))["notice"] == wanted
    nothing = await call(client, "memory_search", query="quokka", namespace="work")
    assert nothing["notice"].startswith("Nothing fits this query.")
    assert "memory_list_namespaces" in (await call(client, "memory_recent", namespace="quokka"))["notice"]


async def test_a_confined_key_learns_of_no_other_namespace(mcp_server: McpServer) -> None:
    notes: Any = mcp_server.app.opened["notes"].operations
    confined = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}), namespace="mine", is_confined=True)
    before = notes.reader.stats(confined, "wrok")
    async with connected(mcp_server) as client:
        await call(client, "memory_create", content="c", namespace="work")
        await call(client, "memory_create", content="c", namespace="wrok")
    assert notes.reader.stats(confined, "wrok") == before
