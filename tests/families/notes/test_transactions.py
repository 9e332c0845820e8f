"""Creating, changing and deleting notes, and what is refused."""

from typing import Any
from uuid import UUID

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.request_context import StreamClient
from memory_mcp.services.sessions import Connection
from tests.conftest import Clock, connected
from tests.families.notes.calls import (
    NOON,
    call,
    create,
    create_alone,
    delete,
    file,
    found,
    get,
    links,
    named,
    read,
    recent,
    refusal,
    update,
)

pytestmark = pytest.mark.anyio

LATER = "2030-01-01T13:00:00.000Z"
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
MEBIBYTE = 1024 * 1024


async def test_a_new_note_is_returned_completely(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era, **named("Claude Desktop")) as client:
        note = await create(
            client,
            "Ran migrations on node-01 at 14:32 UTC.",
            title="Migration run 2026-04-21",
            tags=["deploy"],
            importance=0.7,
            namespace="work",
            folder="ops/2026",
            metadata={"ticket": 7, "who": {"name": "Ada"}},
        )
        read_back = await get(client, note)

    assert note == {
        "id": str(UUID(note["id"])),
        "user_id": "local",
        "namespace": "work",
        "title": "Migration run 2026-04-21",
        "content": "Ran migrations on node-01 at 14:32 UTC.",
        "folder": "ops/2026",
        "tags": ["deploy", "mcp", "memory", "claude-desktop", "ns/work"],
        "importance": 0.7,
        "metadata": {"ticket": 7, "who": {"name": "Ada"}},
        "source": "mcp",
        "client": "claude-desktop",
        "created_at": NOON,
        "updated_at": NOON,
        "last_referenced_at": None,
        "archived": False,
        "expires_at": None,
        "superseded_by": None,
        "version": 1,
    }
    assert read_back == note | {"last_referenced_at": NOON}


async def test_omitted_arguments_have_their_defaults(client: Client) -> None:
    note = await create(client, "# First line\n\nand more")

    assert note["title"] == "First line"
    assert (note["namespace"], note["folder"], note["importance"], note["metadata"]) == ("default", "", 0.5, {})
    assert (await create(client, "c", namespace="  ", title=" "))["namespace"] == "default"


async def test_a_derived_title_follows_the_first_line(client: Client) -> None:
    note = await create(client, "old first line\nmore")
    note = await update(client, note, content="new first line\nmore")
    assert note["title"] == "new first line"

    note = await update(client, note, title="  My   own ")
    assert note["title"] == "My own"
    assert (await update(client, note, content="yet another line"))["title"] == "My own"


async def test_an_update_changes_only_the_given_fields(client: Client, clock: Clock) -> None:
    note = await create(client, "text", title="t", tags=["a"], folder="f", metadata={"k": 1}, namespace="n")

    for change in (
        {"content": "other text"},
        {"title": "u"},
        {"folder": ""},
        {"importance": 0},
        {"expires_at": "2040-01-01T00:00:00.000Z"},
    ):
        clock.now = clock.now.replace(hour=13)
        changed = await update(client, note, **change)
        assert changed == note | change | {"version": note["version"] + 1, "updated_at": LATER}
        note = changed


async def test_metadata_is_merged_and_null_removes_a_key(client: Client) -> None:
    note = await create(client, metadata={"keep": 1, "change": {"a": 1}, "drop": True})

    note = await update(
        client, note, metadata_patch={"change": {"b": 2}, "drop": None, "new": [1, None], "absent": None}
    )
    assert note["metadata"] == {"keep": 1, "change": {"b": 2}, "new": [1, None]}


async def test_a_null_in_metadata_stays_until_it_is_removed(client: Client) -> None:
    note = await create(client, metadata={"answer": None})

    assert (await update(client, note, importance=0.9))["metadata"] == note["metadata"]


async def test_an_update_without_a_change_is_refused(client: Client) -> None:
    note = await create(client)

    refused = await refusal(client, "memory_update", id=note["id"])
    assert refused["error"] == "invalid"
    assert "at least one field" in refused["message"]


@pytest.mark.parametrize("tool", ["memory_get", "memory_update", "memory_delete", "memory_neighbors"])
@pytest.mark.parametrize("id_", [UNKNOWN_ID, "no uuid", "x' OR 1=1"])
async def test_a_missing_note_is_not_found(client: Client, tool: str, id_: str) -> None:
    await create(client)
    more = {"folder": "f"} if tool == "memory_update" else {}

    refused = await refusal(client, tool, id=id_, **more)
    assert refused == {
        "error": "not_found",
        "message": "There is no note with this id. memory_search finds what there is.",
        "data": {},
    }


# Deleting


async def test_an_archived_note_is_found_only_by_id_and_tag(client: Client) -> None:
    note = await create(client, "findable words", tags=["own"], namespace="old", importance=0.8)
    linked = await create(client, "linked", namespace="new")
    await call(client, "memory_link", source_id=linked["id"], target_id=note["id"])

    assert await delete(client, note) == {"id": note["id"], "deleted": True, "soft": True}

    assert (
        await found(client, "findable")
        == await found(client, tags=["own"])
        == await found(client, namespace="old")
        == []
    )
    assert await found(client, tags=["archived"]) == []
    assert await recent(client) == ["linked"]
    assert [one["namespace"] for one in (await call(client, "memory_list_namespaces"))["namespaces"]] == ["new"]
    assert "own" not in [one["tag"] for one in (await call(client, "memory_list_tags"))["tags"]]
    assert (await call(client, "memory_stats"))["total"] == 1
    assert (await call(client, "memory_neighbors", id=linked["id"]))["edges"] == []
    assert note["id"] not in str(await client.list_resources())
    assert await read(client, "memory://namespace/old") == await read(client, "memory://tag/own") == []

    kept = await get(client, note)
    assert (kept["archived"], kept["importance"], kept["tags"][-1]) == (True, 0.0, "archived")
    assert kept["content"] == "findable words"
    assert (await read(client, f"memory://note/{note['id']}"))["archived"] is True
    assert [one["id"] for one in await read(client, "memory://tag/archived")] == [note["id"]]


async def test_an_archived_note_is_in_no_links(client: Client) -> None:
    target = await create(client, "body", title="Plan")
    by_title = await create(client, "see [[Plan]]")
    by_hand = await create(client, "other")
    await call(client, "memory_link", source_id=by_hand["id"], target_id=target["id"])
    await delete(client, target)

    assert (await links(client, by_title))["outgoing"] == (await links(client, by_hand))["outgoing"] == []
    await update(client, target, remove_tags=["archived"])
    for source in (by_title, by_hand):
        assert (await links(client, source))["outgoing"] == [target["id"]]


async def test_deleting_softly_twice_changes_nothing_more(client: Client) -> None:
    note = await create(client)
    await delete(client, note)

    assert await delete(client, note) == {"id": note["id"], "deleted": True, "soft": True}
    assert (await get(client, note))["version"] == 2


async def test_a_restored_note_is_found_again_with_the_importance_it_had(client: Client) -> None:
    note = await create(client, "findable", importance=0.8, tags=["own"])
    await delete(client, note)

    restored = await update(client, note, remove_tags=["archived"])
    assert (restored["archived"], restored["importance"], restored["tags"]) == (False, 0.8, note["tags"])
    assert await found(client, "findable") == ["findable"]
    assert await read(client, "memory://tag/archived") == []


async def test_a_restored_note_may_be_given_another_importance(client: Client) -> None:
    note = await create(client, importance=0.8)
    await delete(client, note)

    assert (await update(client, note, remove_tags=["#Archived"], importance=0.3))["importance"] == 0.3


@pytest.mark.parametrize("content", ["plain", "a note about #archived things"])
async def test_a_change_of_an_archived_note_leaves_it_archived(client: Client, content: str) -> None:
    note = await create(client, content, importance=0.8)
    await delete(client, note)

    changed = await update(client, note, folder="elsewhere")
    assert (changed["archived"], changed["importance"]) == (True, 0.0)
    assert await found(client, "plain archived things") == []


async def test_a_client_called_archived_does_not_restore_notes(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era, **named("Archived")) as client:
        note = await create(client)
        await delete(client, note)
        assert (await update(client, note, folder="elsewhere"))["archived"] is True


async def test_a_permanently_deleted_note_is_gone(client: Client) -> None:
    note = await create(client, "findable")

    assert await delete(client, note, soft=False) == {"id": note["id"], "deleted": True, "soft": False}
    for tool in ("memory_get", "memory_delete"):
        assert (await refusal(client, tool, id=note["id"]))["error"] == "not_found"
    assert await found(client, "findable") == await recent(client) == []


async def test_an_archived_note_can_be_deleted_permanently(client: Client) -> None:
    note = await create(client)
    await delete(client, note)
    await delete(client, note, soft=False)

    assert await read(client, "memory://tag/archived") == []


# Times and copies


async def test_an_expired_note_is_in_no_search_or_list_and_still_there(client: Client, clock: Clock) -> None:
    note = await create(client, "soon over", tags=["t"], namespace="n", expires_at="2030-01-01T13:00:00Z")
    assert note["expires_at"] == LATER
    assert await found(client, "over") == await recent(client) == ["soon over"]

    clock.now = clock.now.replace(hour=13)
    for gone in (
        await found(client, "over"),
        await found(client, namespace="n"),
        await recent(client),
        (await call(client, "memory_list_namespaces"))["namespaces"],
        (await call(client, "memory_list_tags"))["tags"],
        await read(client, "memory://namespace/n"),
        await read(client, "memory://tag/t"),
        await read(client, "memory://recent"),
    ):
        assert gone == []
    assert (await call(client, "memory_stats"))["total"] == 0
    assert (await get(client, note))["content"] == "soon over"
    assert (await update(client, note, expires_at=""))["expires_at"] is None
    assert await found(client, "over") == ["soon over"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2031-05-06", "2031-05-06T00:00:00.000Z"),
        ("2031-05-06T10:00:00+02:00", "2031-05-06T08:00:00.000Z"),
        ("2031-05-06T10:00:00.1234567Z", "2031-05-06T10:00:00.123Z"),
        ("2031-05-06 10:00", "2031-05-06T10:00:00.000Z"),
    ],
)
async def test_a_time_is_kept_in_utc_to_the_millisecond(client: Client, given: str, kept: str) -> None:
    assert (await create(client, expires_at=given))["expires_at"] == kept


async def test_equal_texts_are_kept_and_named(client: Client) -> None:
    first = await create(client, "The same text.")
    await create(client, "The same text.", namespace="elsewhere")

    second = await create(client, "the  SAME\ntext.")
    assert second["similar"] == [first["id"]]
    assert "similar" not in await get(client, second)
    await delete(client, first)
    assert (await create(client, "The same text."))["similar"] == [second["id"]]
    third = await create(client, "another")
    assert "similar" not in third
    assert second["id"] in (await update(client, third, content="the same text."))["similar"]


# Bounds


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("memory_create", {}, "content"),
        ("memory_create", {"content": ""}, "content"),
        ("memory_create", {"content": " \n"}, "content"),
        ("memory_create", {"content": 5}, "content"),
        ("memory_create", {"content": "c", "colour": "red"}, "colour"),
        ("memory_create", {"content": "c", "title": ""}, "title"),
        ("memory_create", {"content": "c", "title": "t" * 301}, "title"),
        ("memory_create", {"content": "c", "tags": 5}, "tags"),
        ("memory_create", {"content": "c", "tags": [1]}, "tags.0"),
        ("memory_create", {"content": "c", "importance": 1.1}, "importance"),
        ("memory_create", {"content": "c", "importance": -0.1}, "importance"),
        ("memory_create", {"content": "c", "importance": "1.5"}, "importance"),
        ("memory_create", {"content": "c", "importance": True}, "importance"),
        ("memory_create", {"content": "c", "namespace": "a,b"}, "namespace"),
        ("memory_create", {"content": "c", "namespace": "a\nb"}, "namespace"),
        ("memory_create", {"content": "c", "namespace": "n" * 129}, "namespace"),
        ("memory_create", {"content": "c", "folder": "f" * 513}, "folder"),
        ("memory_create", {"content": "c", "metadata": [1]}, "metadata"),
        ("memory_create", {"content": "c", "expires_at": "tomorrow"}, "expires_at"),
        ("memory_create", {"content": "c", "expires_at": 5}, "expires_at"),
        ("memory_create", {"content": "c", "supersedes": 5}, "supersedes"),
        ("memory_get", {}, "id"),
        ("memory_get", {"id": "x", "version": 0}, "version"),
        ("memory_get", {"id": "x", "version": 1.5}, "version"),
        ("memory_get", {"id": "x", "include_links": "yes"}, "include_links"),
        ("memory_update", {"id": "x", "metadata_patch": "{"}, "metadata_patch"),
        ("memory_delete", {"id": "x", "soft": 0}, "soft"),
        ("memory_link", {"source_id": "x"}, "target_id"),
        ("memory_neighbors", {"id": "x", "depth": 0}, "depth"),
        ("memory_neighbors", {"id": "x", "depth": 4}, "depth"),
        ("memory_recent", {"limit": 0}, "limit"),
        ("memory_recent", {"limit": 101}, "limit"),
        ("memory_list_tags", {"min_count": 0}, "min_count"),
        ("memory_list_namespaces", {"namespace": "x"}, "namespace"),
        ("memory_search", {"query": 5}, "query"),
        ("memory_search", {"query": "x", "limit": 101}, "limit"),
        ("memory_search", {"query": "x", "limit": True}, "limit"),
        ("memory_search", {"query": "x", "source": "elsewhere"}, "source"),
        ("memory_search", {"query": "x", "search_mode": "fuzzy"}, "search_mode"),
        ("memory_search", {"query": "x", "min_importance": 2}, "min_importance"),
        ("memory_search", {"query": "x", "created_after": "long ago"}, "created_after"),
        ("memory_search", {"query": "x", "created_before": "2026-13-01"}, "created_before"),
    ],
)
async def test_invalid_arguments_are_refused_with_the_field(
    mcp_server: McpServer, tool: str, arguments: dict[str, Any], field: str
) -> None:
    async with connected(mcp_server) as client:
        refused = await refusal(client, tool, **arguments)

        assert refused["error"] == "invalid"
        assert refused["data"] == {"field": field}
        assert field.split(".")[0] in refused["message"] or "note needs some text" in refused["message"]
        assert await recent(client) == []


async def test_an_update_cannot_empty_a_note(client: Client) -> None:
    note = await create(client)

    for content in ("", "  \n"):
        assert (await refusal(client, "memory_update", id=note["id"], content=content))["data"] == {"field": "content"}
    assert (await get(client, note))["content"] == "something"


async def test_whole_numbers_may_be_written_as_floats(client: Client) -> None:
    note = await create(client, importance=1)

    assert note["importance"] == 1.0
    assert await found(client, "something", limit=10.0) == await recent(client, limit=10.0) == ["something"]
    assert (await get(client, note, version=1.0))["version"] == 1
    assert len((await call(client, "memory_neighbors", id=note["id"], depth=2.0))["nodes"]) == 1
    assert (await call(client, "memory_list_tags", min_count=2.0))["tags"] == []


async def test_a_mebibyte_fits_and_more_is_too_large(client: Client) -> None:
    note = await create(client, "start " + "x" * (MEBIBYTE - 6))
    assert len((await get(client, note))["content"]) == MEBIBYTE
    assert await found(client, "start") == [note["title"]]

    for field, tool, arguments in (
        ("content", "memory_create", {"content": "é" * (MEBIBYTE // 2 + 1)}),
        ("content", "memory_update", {"id": note["id"], "content": "x" * (MEBIBYTE + 1)}),
        ("query", "memory_search", {"query": "x" * (MEBIBYTE + 1)}),
        ("metadata.k", "memory_create", {"content": "c", "metadata": {"k": "x" * (MEBIBYTE + 1)}}),
    ):
        refused = await refusal(client, tool, **arguments)
        assert refused["error"] == "too_large"
        assert refused["data"]["field"] == field


async def test_metadata_over_a_mebibyte_altogether_is_too_large(client: Client) -> None:
    refused = await refusal(
        client, "memory_create", content="c", metadata={str(number): "x" * 10_000 for number in range(110)}
    )
    assert refused["error"] == "too_large"
    assert refused["data"]["field"] == "metadata"


async def test_text_is_kept_in_nfc(client: Client) -> None:
    note = await create(client, "re\u0301sume\u0301", title="cafe\u0301", tags=["e\u0301"], namespace="n\u0303")

    assert (note["content"], note["title"], note["tags"][0], note["namespace"]) == ("résumé", "café", "é", "ñ")
    assert await found(client, tags=["e\u0301"], namespace="n\u0303") == ["café"]


async def test_control_characters_in_a_text_do_no_harm(client: Client, database_url: str | None) -> None:
    note = await create(client, "a\x00b \x1b[0m findable #tag\x00 [[T\x00]]", title="nul \x00 title")

    nul = "\N{REPLACEMENT CHARACTER}" if database_url else "\0"  # PostgreSQL cannot store it
    assert (await get(client, note))["content"] == note["content"].replace("\0", nul)
    assert await found(client, "findable") == [note["title"].replace("\0", nul)]
    assert (await get(client, note))["tags"][-1] == "tag"


# Who may


@pytest.mark.parametrize(
    ("scope", "tools"),
    [
        (
            Scope.READ,
            {"search", "get", "list_namespaces", "list_tags", "recent", "neighbors", "stats"},
        ),
        (Scope.WRITE, {"create", "update"}),
        (Scope.DELETE, {"delete"}),
        (Scope.LINK, {"link", "unlink"}),
    ],
)
async def test_each_scope_shows_and_allows_its_own_tools(
    app: App, mcp_server: McpServer, era: str, scope: Scope, tools: set[str]
) -> None:
    line = StreamClient(
        Caller(LOCAL_USER, frozenset({scope}), frozenset({"notes"})), Connection(LOCAL_USER, "s"), "stdio"
    )
    every = {name: tool.needs for name, tool in app.families["notes"].tools.items()}
    assert len(every) == 12

    async with connected(mcp_server, line, mode=era) as client:
        shown = {tool.name for tool in (await client.list_tools()).tools}
        assert shown == {f"memory_{tool}" for tool in tools}
        for name in every.keys() - shown:
            refused = await refusal(client, name)
            assert (refused["error"], refused["data"]) == ("scope_required", {"scope": every[name].value})


async def test_read_only_tools_are_marked(client: Client) -> None:
    hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    reading = {name for name, hint in hints.items() if hint is not None and hint.read_only_hint}
    destructive = {name for name, hint in hints.items() if hint is not None and hint.destructive_hint}
    assert reading == set(hints) - {f"memory_{verb}" for verb in ("create", "update", "delete", "link", "unlink")}
    assert destructive == {"memory_update", "memory_delete", "memory_unlink"}


# Namespaces


async def test_a_row_without_a_namespace_is_in_the_default_one(client: Client, app: App) -> None:
    with file(app).write() as tx:
        tx.all(
            """
            INSERT INTO notes (id, user_id, mcp_namespace, title, has_own_title, title_key, content, content_key,
                source, created_at, updated_at)
            VALUES ('foreign', 'local', '', 'From elsewhere', 1, 'from elsewhere', 'text', :key, 'ui', :now, :now)
            """,
            {"now": NOON, "key": b""},
        )

    assert (await call(client, "memory_list_namespaces"))["namespaces"] == [
        {"namespace": "default", "count": 1, "updated_at": NOON}
    ]
    assert (await get(client, {"id": "foreign"}))["namespace"] == "default"
    assert await found(client, namespace="default") == await recent(client, namespace="default") == ["From elsewhere"]
    assert await found(client, source="ui") == ["From elsewhere"]
    assert (await call(client, "memory_stats", namespace="default"))["by_source"] == {"ui": 1}


async def test_a_note_moves_to_another_namespace_whole(client: Client, clock: Clock) -> None:
    note = await create_alone(client, clock, "moving words", namespace="from")

    await update(client, note, namespace="to")
    assert await found(client, "moving", namespace="from") == []
    assert await found(client, "moving", namespace="to") == ["moving words"]
    assert [one["namespace"] for one in (await call(client, "memory_list_namespaces"))["namespaces"]] == ["to"]
