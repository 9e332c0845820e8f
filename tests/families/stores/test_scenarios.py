"""Every scenario of the specification, one test each, under its name."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.errors import Conflict
from memory_mcp.families.stores.model import Metadata
from tests.conftest import Clock
from tests.families.stores.calls import (
    CALLER,
    LONG_AGO,
    NOON,
    add,
    call,
    content,
    get,
    index,
    listed,
    metadata,
    move,
    recent,
    refusal,
    refused,
    register,
    subcategories,
    update,
    write,
)

MINE = {"origin": "mcp"}  # who wrote

pytestmark = pytest.mark.anyio

CITATIONS = ["src/core/types.ts:17", "https://docs.example.com"]
LATER = "2030-01-01T13:00:00Z"
TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("add_memory", {"path": "a", "content": "c"}),
    ("get_memory", {"path": "a"}),
    ("update_memory", {"path": "a", "content": "c"}),
    ("remove_memory", {"path": "a"}),
    ("move_memory", {"from_path": "a", "to_path": "b"}),
    ("list_memories", {}),
    ("prune_memories", {}),
    ("reindex_store", {}),
    ("cortex_get_recent_memories", {}),
]


# Add memory tool


async def test_adding_a_memory(client: Client, tmp_path: Path) -> None:
    answer = await call(client, "add_memory", store="s", path="plan", content="We ship.")
    assert answer == {"store": "s", "path": "plan", "created": True}
    assert (tmp_path / "stores" / "s" / "plan.md").read_text() == (
        f"---\ncreated_at: '{NOON}'\nupdated_at: '{NOON}'\ntags: []\nsource: mcp\n---\n\nWe ship.\n"
    )
    message = await refused(client, "add_memory", "conflict", path="plan", content="Again.")
    assert "update_memory" in message
    assert await content(client, "plan") == "We ship."


async def test_auto_create_store_on_first_write(client: Client, tmp_path: Path) -> None:
    assert not (tmp_path / "stores.yaml").exists()
    await add(client, "a", store="work")
    assert (tmp_path / "stores.yaml").read_text() == "work: stores/work\n"
    assert (tmp_path / "stores" / "work" / "a.md").is_file()


async def test_auto_create_category(client: Client, tmp_path: Path) -> None:
    await add(client, "work/plans/q3")
    assert (tmp_path / "stores" / "s" / "work" / "plans" / "q3.md").is_file()
    assert await subcategories(client) == ["work"]
    assert await subcategories(client, "work") == ["work/plans"]
    assert await listed(client, "work/plans") == ["work/plans/q3"]


async def test_memory_with_optional_parameters(client: Client) -> None:
    await add(client, "a", tags=["x", "ü 2"], expires_at="2031-05-05T10:00:00+02:00", citations=["a.py:1"])
    assert await metadata(client, "a") == {
        "created_at": NOON,
        "updated_at": NOON,
        "tags": ["x", "ü 2"],
        "source": "mcp",
        "expires_at": "2031-05-05T08:00:00Z",
        "citations": ["a.py:1"],
    }
    assert "expires_at" in await refused(client, "add_memory", "invalid", path="b", content="c", expires_at="soon")


async def test_adding_a_memory_with_citations(client: Client) -> None:
    await add(client, "a", citations=CITATIONS)
    assert (await metadata(client, "a"))["citations"] == CITATIONS


# Get memory tool


async def test_retrieving_a_memory(client: Client) -> None:
    await add(client, "a/b", "# Title\n\nText.")
    assert await get(client, "a/b") == {
        "store": "s",
        "path": "a/b",
        "content": "# Title\n\nText.",
        "metadata": {
            "created_at": NOON,
            "updated_at": NOON,
            "tags": [],
            "source": "mcp",
            "expires_at": None,
            "citations": [],
        },
        "origin": "mcp",  # the name of the client
    }


async def test_memory_not_found(client: Client) -> None:
    await add(client, "a")
    error = (await refusal(client, "get_memory", store="s", path="b")).error
    assert (error.code, error.data) == (-32602, {"error": "not_found", "field": "path"})
    assert "list_memories" in error.message


async def test_expired_memory_handling(client: Client, clock: Clock) -> None:
    await add(client, "past", expires_at=LONG_AGO)
    await add(client, "soon", expires_at=LATER)
    assert "include_expired" in await refused(client, "get_memory", "expired", path="past")
    await refused(client, "get_memory", "expired", path="past", include_expired=False)
    assert (await get(client, "past", include_expired=True))["content"] == "something"

    assert await content(client, "soon") == "something"
    clock.now += timedelta(hours=1)
    await refused(client, "get_memory", "expired", path="soon")


async def test_response_includes_citations(client: Client) -> None:
    await add(client, "a", citations=CITATIONS)
    assert (await get(client, "a"))["metadata"]["citations"] == CITATIONS


async def test_response_for_memory_without_citations(client: Client) -> None:
    await add(client, "a")
    assert (await get(client, "a"))["metadata"]["citations"] == []


# Update memory tool


async def test_updating_content(client: Client, clock: Clock) -> None:
    await add(client, "a", "old", tags=["t"])
    clock.now += timedelta(hours=1)
    await update(client, "a", content="new")
    assert await content(client, "a") == "new"
    found = await metadata(client, "a")
    assert (found["created_at"], found["updated_at"], found["tags"]) == (NOON, LATER, ["t"])


async def test_updating_metadata_only(client: Client, clock: Clock) -> None:
    await add(client, "a", "same\n\nbody", tags=["t"], citations=["c"])
    clock.now += timedelta(hours=1)
    await update(client, "a", tags=["u", "v"])
    await update(client, "a", expires_at="2031-01-01")
    assert await content(client, "a") == "same\n\nbody"
    assert await metadata(client, "a") == {
        "created_at": NOON,
        "updated_at": LATER,
        "tags": ["u", "v"],
        "source": "mcp",
        "expires_at": "2031-01-01T23:59:59.999Z",
        "citations": ["c"],
    }


async def test_clearing_expiry(client: Client, tmp_path: Path) -> None:
    await add(client, "a", expires_at=LONG_AGO)
    await update(client, "a", clear_expiry=True)
    assert (await get(client, "a"))["metadata"]["expires_at"] is None
    assert "expires_at" not in (tmp_path / "stores" / "s" / "a.md").read_text()
    await refused(client, "update_memory", "invalid", path="a", clear_expiry=True, expires_at=LATER)


@pytest.mark.parametrize(
    "arguments", [{}, {"content": None}, {"tags": None, "expires_at": None}, {"clear_expiry": False}]
)
async def test_an_update_of_nothing_is_refused(client: Client, arguments: dict[str, Any]) -> None:
    await add(client, "a")
    assert "Nothing to change" in await refused(client, "update_memory", "invalid", path="a", **arguments)


async def test_updating_citations(client: Client) -> None:
    await add(client, "a", citations=CITATIONS)
    await update(client, "a", citations=["new/path.ts:5"])
    assert (await metadata(client, "a"))["citations"] == ["new/path.ts:5"]


async def test_clearing_citations(client: Client, tmp_path: Path) -> None:
    await add(client, "a", citations=CITATIONS)
    await update(client, "a", citations=[])
    assert (await metadata(client, "a"))["citations"] == []
    assert "citations" not in (tmp_path / "stores" / "s" / "a.md").read_text()


async def test_preserving_citations_on_unrelated_update(client: Client) -> None:
    await add(client, "a", citations=CITATIONS)
    await update(client, "a", content="new", tags=["t"], expires_at=LATER)
    assert (await metadata(client, "a"))["citations"] == CITATIONS


# Remove memory tool


async def test_removing_a_memory(client: Client, tmp_path: Path) -> None:
    await add(client, "c/a")
    assert await call(client, "remove_memory", store="s", path="c/a") == {"store": "s", "path": "c/a", "removed": True}
    assert not (tmp_path / "stores" / "s" / "c" / "a.md").exists()
    assert await listed(client, "c") == []
    await refused(client, "get_memory", "not_found", path="c/a")


async def test_removing_non_existent_memory(client: Client) -> None:
    await add(client, "a")
    assert "list_memories" in await refused(client, "remove_memory", "not_found", path="b")
    await refused(client, "remove_memory", "not_found", path="none/b")
    assert await listed(client) == ["a"]


# Move memory tool


async def test_moving_a_memory(client: Client, clock: Clock, tmp_path: Path) -> None:
    await add(client, "a/one", "moved words", tags=["t"])
    before = (tmp_path / "stores" / "s" / "a" / "one.md").read_bytes()
    clock.now += timedelta(hours=1)
    await move(client, "a/one", "b/c/two")
    assert (tmp_path / "stores" / "s" / "b" / "c" / "two.md").read_bytes() == before
    await refused(client, "get_memory", "not_found", path="a/one")
    assert (await listed(client, "a"), await listed(client, "b/c")) == ([], ["b/c/two"])


async def test_moving_to_existing_path(client: Client) -> None:
    await add(client, "a", "first")
    await add(client, "b", "second")
    error = (await refusal(client, "move_memory", store="s", from_path="a", to_path="b")).error
    assert (error.code, error.data) == (-32602, {"error": "conflict", "field": "to_path"})
    assert (await content(client, "a"), await content(client, "b")) == ("first", "second")
    await refused(client, "move_memory", "not_found", from_path="none", to_path="c")


# List memories tool


async def test_listing_category_contents(client: Client) -> None:
    await add(client, "c/one", "# One\n\nmore words")
    await add(client, "c/two", "two", expires_at=LONG_AGO)
    await add(client, "c/below/three")
    assert await call(client, "list_memories", store="s", category="c") == {
        "store": "s",
        "category": "c",
        "count": 1,
        "memories": [
            {"path": "c/one", "token_estimate": 5, "summary": "One", "updated_at": NOON, "expired": False} | MINE,
        ],
        "subcategories": ["c/below"],
    }
    await refused(client, "list_memories", "not_found", category="none")


async def test_listing_all_memories(client: Client) -> None:
    await add(client, "top")
    await add(client, "c/deeper")
    answer = await call(client, "list_memories", store="s")
    assert [memory["path"] for memory in answer["memories"]] == ["top"]
    assert (answer["category"], answer["subcategories"]) == ("all", ["c"])


async def test_filtering_expired(client: Client) -> None:
    await add(client, "old", expires_at=LONG_AGO)
    await add(client, "live", expires_at=LATER)
    assert await listed(client) == ["live"]
    answer = await call(client, "list_memories", store="s", include_expired=True)
    assert [(memory["path"], memory["expired"]) for memory in answer["memories"]] == [("live", False), ("old", True)]


async def test_response_includes_updated_at(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    write(elsewhere, "by-hand.md")
    await add(client, "by-agent")
    answer = await call(client, "list_memories", store="s")
    times = {memory["path"]: memory["updated_at"] for memory in answer["memories"]}
    assert times == {"by-agent": NOON, "by-hand": None}


# Prune memories tool


async def test_pruning_expired_memories(client: Client, tmp_path: Path) -> None:
    for path in ("old", "c/old", "c/d/old"):
        await add(client, path, expires_at=LONG_AGO)
    await add(client, "c/live", expires_at=LATER)
    await add(client, "plain")
    answer = await call(client, "prune_memories", store="s")
    assert answer == {"store": "s", "pruned_count": 3, "pruned": ["c/d/old", "c/old", "old"]}
    left = {str(path.relative_to(tmp_path / "stores" / "s")) for path in (tmp_path / "stores" / "s").rglob("*.md")}
    assert left == {"c/live.md", "plain.md"}
    assert index(tmp_path / "stores" / "s" / "c" / "d") == {"memories": [], "subcategories": []}


async def test_no_expired_memories(client: Client) -> None:
    await add(client, "a")
    assert await call(client, "prune_memories", store="s") == {"store": "s", "pruned_count": 0, "pruned": []}


# Required store parameter


@pytest.mark.parametrize(("tool", "arguments"), TOOLS)
async def test_store_parameter_required(client: Client, tool: str, arguments: dict[str, Any]) -> None:
    error = (await refusal(client, tool, **arguments)).error
    assert (error.code, error.data["error"], error.data["field"]) == (-32602, "invalid", "store")
    assert "store" in error.message


async def test_explicit_store_accepted(client: Client, app: App, elsewhere: Path, tmp_path: Path) -> None:
    register(app, elsewhere, "mine")
    await add(client, "a", store="mine")
    assert (elsewhere / "a.md").is_file()
    assert not (tmp_path / "stores").exists()
    assert await content(client, "a", store="mine") == "something"


@pytest.mark.parametrize(("tool", "arguments"), [one for one in TOOLS if one[0] != "add_memory"])
async def test_store_not_in_registry(client: Client, tool: str, arguments: dict[str, Any]) -> None:
    error = (await refusal(client, tool, store="nowhere", **arguments)).error
    assert (error.code, error.data) == (-32602, {"error": "store_not_registered", "field": "store"})
    assert "not registered" in error.message


# Memory tool implementation


async def test_add_memory_tool_delegates_to_create_memory(client: Client, app: App) -> None:
    await add(client, "by/tool", "words", tags=["t"])
    app.stores.add(CALLER, "s", "by/operation", "words", Metadata(tags=["t"]))
    one, other = (app.stores.get(CALLER, "s", path, include_expired=False) for path in ("by/tool", "by/operation"))
    assert (one.content, one.metadata) == (other.content, other.metadata)


async def test_get_memory_tool_delegates_to_get_memory(client: Client, app: App) -> None:
    app.stores.add(CALLER, "s", "a", "words", Metadata(citations=["c"]))
    memory = app.stores.get(CALLER, "s", "a", include_expired=False)
    assert await get(client, "a") == {**vars(memory), "metadata": vars(memory.metadata)}


async def test_domain_error_mapped_to_mcp_error(client: Client, app: App) -> None:
    await add(client, "a")
    with pytest.raises(Conflict) as raised:
        app.stores.add(CALLER, "s", "a", "words", Metadata())
    error = (await refusal(client, "add_memory", store="s", path="a", content="words")).error
    assert (error.code, error.message) == (-32602, raised.value.text_for_models)
    assert error.data == {"error": "conflict", "field": "path"}


# Reindex store tool


async def test_reindex_store_indexes(client: Client, tmp_path: Path) -> None:
    store = tmp_path / "stores" / "s"
    await add(client, "a")
    await add(client, "c/b")
    write(store, "d/e/by-hand.md", "found")
    for path in store.rglob("index.yaml"):
        path.unlink()
    answer = await call(client, "reindex_store", store="s")
    assert answer == {"store": "s", "path": "stores/s", "memories": 3, "categories": 3}
    assert {path.parent.name for path in store.rglob("index.yaml")} == {"s", "c", "d", "e"}
    assert [one["path"] for one in index(store / "d" / "e")["memories"]] == ["d/e/by-hand"]


async def test_store_not_found(client: Client) -> None:
    await add(client, "a")
    error = (await refusal(client, "reindex_store", store="t")).error
    assert (error.code, error.data["error"]) == (-32602, "store_not_registered")
    assert "'t' is not registered" in error.message


async def test_reindex_failure(client: Client, app: App, elsewhere: Path) -> None:
    folder = elsewhere / "vault"
    folder.mkdir()
    register(app, folder)
    folder.rmdir()
    error = (await refusal(client, "reindex_store", store="s")).error
    assert (error.code, error.data) == (-32603, {"error": "unavailable"})
    assert "The folder of the store 's' is not there." in error.message
    assert str(elsewhere) not in error.message


# Get recent memories tool


async def test_retrieving_recent_memories_store_wide(client: Client, clock: Clock) -> None:
    for count in range(7):
        clock.now += timedelta(minutes=1)
        await add(client, f"{'abc'[count % 3]}/m{count}", f"# Memory {count}\n\nwhole *text*")
    found = await recent(client)
    assert list(found) == ["a/m6", "c/m5", "b/m4", "a/m3", "c/m2"]
    assert found["a/m6"] == "# Memory 6\n\nwhole *text*"
    clock.now += timedelta(minutes=1)
    await update(client, "a/m0", content="newest")
    assert next(iter(await recent(client))) == "a/m0"


async def test_scoping_to_a_category(client: Client) -> None:
    for path in ("a/one", "a/b/two", "ab/three", "four"):
        await add(client, path)
    assert set(await recent(client, category="a")) == {"a/one", "a/b/two"}
    answer = await call(client, "cortex_get_recent_memories", store="s", category="a/b")
    assert (answer["category"], answer["count"]) == ("a/b", 1)


async def test_custom_limit(client: Client) -> None:
    for count in range(12):
        await add(client, f"m{count:02}")
    assert len(await recent(client, limit=10)) == 10
    assert len(await recent(client, limit=100)) == 12
    for limit in (0, 101):
        assert "limit" in await refused(client, "cortex_get_recent_memories", "invalid", limit=limit)


async def test_fewer_memories_than_limit(client: Client) -> None:
    await add(client, "one")
    await add(client, "two")
    answer = await call(client, "cortex_get_recent_memories", store="s", limit=10)
    assert (answer["count"], len(answer["memories"])) == (2, 2)


async def test_empty_store_or_category(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    (elsewhere / "empty").mkdir()
    assert await call(client, "cortex_get_recent_memories", store="s") == {
        "category": "all",
        "count": 0,
        "memories": [],
    }
    answer = await call(client, "cortex_get_recent_memories", store="s", category="empty")
    assert answer == {"category": "empty", "count": 0, "memories": []}


async def test_non_existent_category(client: Client) -> None:
    await add(client, "a")
    errors = [
        (await refusal(client, tool, store="s", category="none")).error
        for tool in ("cortex_get_recent_memories", "list_memories")
    ]
    assert errors[0] == errors[1]
    assert (errors[0].code, errors[0].data) == (-32602, {"error": "not_found", "field": "category"})


async def test_filtering_expired_memories(client: Client, clock: Clock) -> None:
    for count in range(3):
        await add(client, f"live{count}")
    clock.now += timedelta(hours=1)
    for count in range(3):
        await add(client, f"old{count}", expires_at=LONG_AGO)
    assert set(await recent(client, limit=3)) == {"live0", "live1", "live2"}
    assert len(await recent(client, include_expired=False)) == 3


async def test_including_expired_memories(client: Client) -> None:
    await add(client, "live")
    await add(client, "old", expires_at=LONG_AGO)
    assert set(await recent(client, include_expired=True)) == {"live", "old"}


async def test_stale_index_entries_without_updated_at(client: Client, tmp_path: Path) -> None:
    await add(client, "old")
    write(tmp_path / "stores" / "s", "by-hand.md", "no time in it")
    write(tmp_path / "stores" / "s", "ancient.md", "---\nupdated_at: 1971-01-01\n---\n")
    assert list(await recent(client)) == ["old", "ancient", "by-hand"]


async def test_response_format(client: Client) -> None:
    await add(client, "c/a", "eight ch", tags=["t"])
    assert await call(client, "cortex_get_recent_memories", store="s") == {
        "category": "all",
        "count": 1,
        "memories": [
            {"path": "c/a", "content": "eight ch", "updated_at": NOON, "token_estimate": 2, "tags": ["t"]} | MINE,
        ],
    }
