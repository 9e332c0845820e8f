"""memory://note, memory://namespace, memory://tag, memory://recent: read, listed, watched."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import quote

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_mcp.app import App
from memory_mcp.server.protocol import McpServer
from tests.conftest import Clock, connected
from tests.families.notes.calls import (
    LIST_CHANGED,
    ChangeListener,
    call,
    create,
    delete,
    get,
    listen_to_changes,
    read,
    update,
    write,
)

pytestmark = pytest.mark.anyio


async def test_there_are_four_kinds_of_resources(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates

    assert {template.uri_template for template in templates} == {
        "memory://namespace/{ns}",
        "memory://note/{id}",
        "memory://tag/{tag}",
    }
    assert all(template.mime_type == "application/json" and template.description for template in templates)
    [recent] = (await client.list_resources()).resources
    assert (recent.uri, recent.mime_type) == ("memory://recent", "application/json")


async def test_a_note_resource_has_its_links(client: Client) -> None:
    target = await create(client, "body", title="Plan")
    note = await create(client, "see [[Plan]] and [[Nowhere]]", metadata={"k": 1}, tags=["t"])

    assert await read(client, f"memory://note/{note['id']}") == note | {
        "links": {
            "outgoing": [{"id": target["id"], "title": "Plan"}],
            "incoming": [],
            "dangling": ["Nowhere"],
            "total": {"outgoing": 1, "incoming": 0, "dangling": 1},
        }
    }


async def test_namespace_tag_and_recent_are_lists_of_summaries(client: Client, clock: Clock) -> None:
    old = await create(client, "old", namespace="work", tags=["t"])
    clock.now += timedelta(minutes=1)
    await create(client, "new", namespace="work", tags=["t"])
    await create(client, "elsewhere")
    summaries = (await call(client, "memory_recent", namespace="work"))["memories"]

    assert await read(client, "memory://namespace/work") == await read(client, "memory://tag/t") == summaries
    assert [note["title"] for note in summaries] == ["new", "old"]
    await get(client, old)
    assert [note["title"] for note in await read(client, "memory://namespace/work")] == ["old", "new"]
    assert [note["title"] for note in await read(client, "memory://recent")] == ["old", "elsewhere", "new"]


async def test_a_list_shows_a_hundred_and_the_recent_ones_twenty(client: Client, app: App) -> None:
    for number in range(101):
        write(app, f"n{number}", tags=("t",))

    newest = [f"n{number}" for number in range(100, 0, -1)]
    assert [note["title"] for note in await read(client, "memory://namespace/default")] == newest
    assert [note["title"] for note in await read(client, "memory://tag/t")] == newest
    assert [note["title"] for note in await read(client, "memory://recent")] == newest[:20]


async def test_a_list_too_long_for_a_model_is_cut_with_a_notice(client: Client, app: App) -> None:
    for _ in range(20):
        write(app, "word", tags=tuple(f"{number}-{'x' * 90}" for number in range(64)))

    contents = (await client.read_resource("memory://namespace/default")).contents[0]
    shown = len(json.loads(contents.text))  # type: ignore[union-attr]
    assert 1 <= shown < 20
    assert contents.meta is not None
    assert f"{20 - shown} more" in contents.meta["memory-mcp/notice"]


@pytest.mark.parametrize("name", ["prod/eu", "ключ 🎉", "a?b#c%20", "..", "a&b=c+d", "é"])
async def test_any_namespace_and_tag_has_an_address(client: Client, name: str) -> None:
    await create(client, "x", namespace=name, tags=[name])

    for kind in ("namespace", "tag"):
        [note] = await read(client, f"memory://{kind}/{quote(name, safe='')}")
        assert note["title"] == "x"
    listed = [resource.uri for resource in (await client.list_resources()).resources]
    assert f"memory://namespace/{quote(name, safe='')}" in listed


async def test_a_tag_is_read_in_any_case_with_or_without_its_mark(client: Client) -> None:
    await create(client, "x", tags=["Urgent"])

    for spelled in ("urgent", "URGENT", "%23urgent"):
        assert len(await read(client, f"memory://tag/{spelled}")) == 1


async def test_unused_names_are_empty_and_missing_notes_are_not_found(client: Client) -> None:
    assert await read(client, "memory://namespace/unknown") == await read(client, "memory://tag/unknown") == []

    for uri in (
        "memory://note/unknown",
        "memory://note/",
        "memory://note/%ff",
        "memory://recently",
        "memory://elsewhere",
        "memory://",
    ):
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        assert caught.value.error.code == -32602
        assert caught.value.error.data == {"error": "not_found", "uri": uri}


async def test_the_list_pages_through_every_note_once(client: Client, app: App) -> None:
    for number in range(230):
        write(app, f"n{number}", namespace=f"ns{number % 3}")

    resources, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        resources += page.resources
        assert len(page.resources) <= 104
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [resource.uri for resource in resources[:1]] == ["memory://recent"]
    assert {resource.uri for resource in resources[1:4]} == {f"memory://namespace/ns{number}" for number in range(3)}
    assert [resource.name for resource in resources[4:]] == [f"n{number}" for number in range(230)]
    assert (await read(client, resources[-1].uri))["title"] == "n229"
    assert len({resource.uri for resource in resources}) == 234


@pytest.mark.parametrize("cursor", ["x", "", "bm90ZXMveA==", "bm90ZXMvLTE=", "bm90ZXMv2aM=", "dmF1bHQvMQ=="])
async def test_a_foreign_cursor_is_refused(client: Client, cursor: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.list_resources(cursor=cursor)

    assert caught.value.error.data == {"error": "invalid", "field": "cursor"}


# Watching


class WatchedServer:
    """A client that writes, and the notifications that another client gets."""

    def __init__(self, client: Client, listener: ChangeListener, marker: str) -> None:
        self.client = client
        self._listener = listener
        self._marker = marker
        self._n_updates = 0

    async def changes(self) -> set[str]:
        """All notifications of writes so far: waits for two changes of a watched marker note."""
        received: set[str] = set()
        for _ in range(2):
            self._n_updates += 1
            await call(self.client, "memory_update", id=self._marker, folder=str(self._n_updates))
            received |= await self._listener.until(note_uri(self._marker))
        return received - {note_uri(self._marker)}


@asynccontextmanager
async def watch_changes(mcp_server: McpServer, era: str, *uris: str) -> AsyncIterator[WatchedServer]:
    async with connected(mcp_server, mode=era) as client:
        marker = (await create(client, "marker", namespace="marker"))["id"]
        async with listen_to_changes(mcp_server, era, [note_uri(marker), *uris]) as listener:
            watch = WatchedServer(client, listener, marker)
            await watch.changes()
            yield watch


def note_uri(id_: str) -> str:
    return f"memory://note/{id_}"


async def test_a_new_note_notifies_watchers_of_its_namespace_tags_and_recent(mcp_server: McpServer, era: str) -> None:
    wanted = {"memory://namespace/a%2Fb", "memory://tag/own", "memory://tag/inline", "memory://tag/ns%2Fa%2Fb"}
    async with watch_changes(mcp_server, era, *wanted, "memory://recent", "memory://namespace/other") as watch:
        await create(watch.client, "x #Inline", namespace="a/b", tags=["Own"])

        assert await watch.changes() == {*wanted, "memory://recent", LIST_CHANGED}


async def test_a_change_notifies_old_and_new_addresses(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "x", namespace="from", tags=["old"])
    uris = {
        note_uri(note["id"]),
        *(f"memory://{end}" for end in ("namespace/from", "namespace/to", "tag/old", "tag/new")),
    }
    async with watch_changes(mcp_server, era, *uris) as watch:
        await update(watch.client, note, namespace="to", tags=["new"])
        assert await watch.changes() - {LIST_CHANGED} == uris

        await update(watch.client, note, content="other")
        assert await watch.changes() == uris - {"memory://namespace/from", "memory://tag/old"}


async def test_a_namespace_that_comes_or_goes_changes_the_list(mcp_server: McpServer, era: str) -> None:
    async with watch_changes(mcp_server, era) as watch:
        note = await create(watch.client, "x", namespace="from")
        await watch.changes()
        await update(watch.client, note, namespace="to")
        assert LIST_CHANGED in await watch.changes()


async def test_deleting_and_restoring_change_the_list_and_notify(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "x", tags=["own"])
    uris = {note_uri(note["id"]), "memory://tag/own", "memory://tag/archived", "memory://namespace/default"}
    async with watch_changes(mcp_server, era, *uris) as watch:
        await delete(watch.client, note)
        assert await watch.changes() == {*uris, LIST_CHANGED}
        await update(watch.client, note, remove_tags=["archived"])
        assert await watch.changes() == {*uris, LIST_CHANGED}
        await delete(watch.client, note, soft=False)
        assert await watch.changes() == {*uris, LIST_CHANGED} - {"memory://tag/archived"}


async def test_linking_notifies_both_ends(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        one, two = await create(client, "one"), await create(client, "two")
    ends = {note_uri(one["id"]), note_uri(two["id"])}
    async with watch_changes(mcp_server, era, *ends) as watch:
        for tool in ("memory_link", "memory_unlink"):
            await call(watch.client, tool, source_id=one["id"], target_id=two["id"])
            assert await watch.changes() == ends
        await call(watch.client, "memory_unlink", source_id=one["id"], target_id=two["id"])
        assert await watch.changes() == set()


async def test_reading_a_note_notifies_recent(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "one")
        async with listen_to_changes(mcp_server, era, ["memory://recent"]) as listener:
            await get(client, note)
            late = {"the list"}  # the creation's notification may still be on its way when the listener comes
            assert await listener.until("memory://recent") - late == {"memory://recent"}


async def test_an_update_without_a_change_notifies_no_one(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "one", tags=["t"])
    async with watch_changes(mcp_server, era, note_uri(note["id"]), "memory://tag/t") as watch:
        await update(watch.client, note, content="one")
        assert await watch.changes() == set()


async def test_superseding_a_note_notifies_its_watchers(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        old = await create(client, "old")
    async with watch_changes(mcp_server, era, note_uri(old["id"])) as watch:
        await create(watch.client, "new", supersedes=[old["id"]])
        assert note_uri(old["id"]) in await watch.changes()


async def test_a_note_whose_links_change_notifies_its_watchers(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        source = await create(client, "see [[Plan]]")
    async with watch_changes(mcp_server, era, note_uri(source["id"])) as watch:
        plan = await create(watch.client, "body", title="Plan")
        assert note_uri(source["id"]) in await watch.changes()
        await delete(watch.client, plan, soft=False)
        assert note_uri(source["id"]) in await watch.changes()


async def test_an_address_may_be_watched_in_any_spelling(mcp_server: McpServer) -> None:
    """A client of the handshake era is notified with its own spelling; the other era has one spelling."""
    spelled = ["memory://tag/PROD%2feu", "memory://tag/prod/eu", "memory://namespace/a b"]
    async with watch_changes(mcp_server, "legacy", *spelled) as watch:
        await create(watch.client, "x", tags=["prod/EU"], namespace="a b")
        assert await watch.changes() == {*spelled, LIST_CHANGED}
