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
    Ear,
    call,
    create,
    delete,
    get,
    listening,
    read,
    update,
    write,
)

pytestmark = pytest.mark.anyio


async def test_there_are_four_kinds_of_address(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates

    assert {template.uri_template for template in templates} == {
        "memory://namespace/{ns}",
        "memory://note/{id}",
        "memory://tag/{tag}",
    }
    assert all(template.mime_type == "application/json" and template.description for template in templates)
    [recent] = (await client.list_resources()).resources
    assert (recent.uri, recent.mime_type) == ("memory://recent", "application/json")


async def test_a_note_is_read_whole_with_its_links(client: Client) -> None:
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


async def test_a_namespace_a_tag_and_the_recent_ones_are_lists_of_slim_notes(client: Client, clock: Clock) -> None:
    old = await create(client, "old", namespace="work", tags=["t"])
    clock.now += timedelta(minutes=1)
    await create(client, "new", namespace="work", tags=["t"])
    await create(client, "elsewhere")
    slim = (await call(client, "memory_recent", namespace="work"))["memories"]

    assert await read(client, "memory://namespace/work") == await read(client, "memory://tag/t") == slim
    assert [note["title"] for note in slim] == ["new", "old"]
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


async def test_a_list_too_long_for_a_model_ends_earlier_and_says_so(client: Client, app: App) -> None:
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


async def test_a_tag_is_read_whatever_its_case_and_mark(client: Client) -> None:
    await create(client, "x", tags=["Urgent"])

    for spelled in ("urgent", "URGENT", "%23urgent"):
        assert len(await read(client, f"memory://tag/{spelled}")) == 1


async def test_what_nobody_uses_is_empty_and_what_is_not_there_is_not_found(client: Client) -> None:
    assert await read(client, "memory://namespace/nobody") == await read(client, "memory://tag/nobody") == []

    for uri in (
        "memory://note/nobody",
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
async def test_a_cursor_that_is_not_ours_is_refused(client: Client, cursor: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.list_resources(cursor=cursor)

    assert caught.value.error.data == {"error": "invalid", "field": "cursor"}


# Watching


class Watch:
    """Somebody who writes, and what somebody else is told of it."""

    def __init__(self, client: Client, ear: Ear, marker: str) -> None:
        self.client = client
        self._ear = ear
        self._marker = marker
        self._turns = 0

    async def told(self) -> set[str]:
        """Everything told of what was done so far: until twice a note that everybody watches has been changed."""
        heard: set[str] = set()
        for _ in range(2):
            self._turns += 1
            await call(self.client, "memory_update", id=self._marker, folder=str(self._turns))
            heard |= await self._ear.until(note_uri(self._marker))
        return heard - {note_uri(self._marker)}


@asynccontextmanager
async def watching(mcp_server: McpServer, era: str, *uris: str) -> AsyncIterator[Watch]:
    async with connected(mcp_server, mode=era) as client:
        marker = (await create(client, "marker", namespace="marker"))["id"]
        async with listening(mcp_server, era, [note_uri(marker), *uris]) as ear:
            watch = Watch(client, ear, marker)
            await watch.told()
            yield watch


def note_uri(id_: str) -> str:
    return f"memory://note/{id_}"


async def test_a_new_note_is_told_to_who_watches_its_namespace_tags_and_the_recent_ones(
    mcp_server: McpServer, era: str
) -> None:
    wanted = {"memory://namespace/a%2Fb", "memory://tag/own", "memory://tag/inline", "memory://tag/ns%2Fa%2Fb"}
    async with watching(mcp_server, era, *wanted, "memory://recent", "memory://namespace/other") as watch:
        await create(watch.client, "x #Inline", namespace="a/b", tags=["Own"])

        assert await watch.told() == {*wanted, "memory://recent", LIST_CHANGED}


async def test_a_change_is_told_where_the_note_was_and_where_it_is(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "x", namespace="from", tags=["old"])
    uris = {
        note_uri(note["id"]),
        *(f"memory://{end}" for end in ("namespace/from", "namespace/to", "tag/old", "tag/new")),
    }
    async with watching(mcp_server, era, *uris) as watch:
        await update(watch.client, note, namespace="to", tags=["new"])
        assert await watch.told() - {LIST_CHANGED} == uris

        await update(watch.client, note, content="other")
        assert await watch.told() == uris - {"memory://namespace/from", "memory://tag/old"}


async def test_a_namespace_that_comes_or_goes_changes_the_list(mcp_server: McpServer, era: str) -> None:
    async with watching(mcp_server, era) as watch:
        note = await create(watch.client, "x", namespace="from")
        await watch.told()
        await update(watch.client, note, namespace="to")
        assert LIST_CHANGED in await watch.told()


async def test_deleting_and_restoring_change_the_list_and_are_told(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "x", tags=["own"])
    uris = {note_uri(note["id"]), "memory://tag/own", "memory://tag/archived", "memory://namespace/default"}
    async with watching(mcp_server, era, *uris) as watch:
        await delete(watch.client, note)
        assert await watch.told() == {*uris, LIST_CHANGED}
        await update(watch.client, note, remove_tags=["archived"])
        assert await watch.told() == {*uris, LIST_CHANGED}
        await delete(watch.client, note, soft=False)
        assert await watch.told() == {*uris, LIST_CHANGED} - {"memory://tag/archived"}


async def test_linking_is_told_at_both_ends_and_reading_among_the_recent(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        one, two = await create(client, "one"), await create(client, "two")
    ends = {note_uri(one["id"]), note_uri(two["id"])}
    async with watching(mcp_server, era, *ends) as watch:
        for tool in ("memory_link", "memory_unlink"):
            await call(watch.client, tool, source_id=one["id"], target_id=two["id"])
            assert await watch.told() == ends
        await call(watch.client, "memory_unlink", source_id=one["id"], target_id=two["id"])
        assert await watch.told() == set()


async def test_reading_a_note_moves_it_among_the_recent_ones(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "one")
        async with listening(mcp_server, era, ["memory://recent"]) as ear:
            await get(client, note)
            assert await ear.until("memory://recent") == {"memory://recent"}


async def test_an_update_that_changes_nothing_is_not_told(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        note = await create(client, "one", tags=["t"])
    async with watching(mcp_server, era, note_uri(note["id"]), "memory://tag/t") as watch:
        await update(watch.client, note, content="one")
        assert await watch.told() == set()


async def test_a_note_that_is_superseded_has_changed(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        old = await create(client, "old")
    async with watching(mcp_server, era, note_uri(old["id"])) as watch:
        await create(watch.client, "new", supersedes=[old["id"]])
        assert note_uri(old["id"]) in await watch.told()


async def test_a_note_whose_links_come_and_go_with_another_has_changed(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as client:
        source = await create(client, "see [[Plan]]")
    async with watching(mcp_server, era, note_uri(source["id"])) as watch:
        plan = await create(watch.client, "body", title="Plan")
        assert note_uri(source["id"]) in await watch.told()
        await delete(watch.client, plan, soft=False)
        assert note_uri(source["id"]) in await watch.told()


async def test_an_address_may_be_watched_in_any_spelling(mcp_server: McpServer) -> None:
    """A client of the handshake era is told in its own; the other era has one spelling."""
    spelled = ["memory://tag/PROD%2feu", "memory://tag/prod/eu", "memory://namespace/a b"]
    async with watching(mcp_server, "legacy", *spelled) as watch:
        await create(watch.client, "x", tags=["prod/EU"], namespace="a b")
        assert await watch.told() == {*spelled, LIST_CHANGED}
