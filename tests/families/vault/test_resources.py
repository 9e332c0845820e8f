import json

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from memory_mcp.server.protocol import McpServer
from tests.conftest import connected
from tests.families.vault.calls import call, commit, read

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("key", ["a/b", "ключ 🎉", "a?b#c%20", "..", "x" * 512, "a&b=c+d"])
async def test_any_key_has_an_address(client: Client, key: str) -> None:
    await commit(client, key, "c")

    uri = (await client.list_resources()).resources[-1].uri
    assert (await read(client, uri))["key"] == key


@pytest.mark.parametrize(
    "uri",
    ["memory://vault/nope", "memory://vault/", "memory://elsewhere", "other://x", "memory://vault/%ff", "memory://"],
)
async def test_a_missing_memory_is_not_found(client: Client, uri: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)

    assert caught.value.error.code == -32602
    assert caught.value.error.data == {"error": "not_found", "uri": uri}


async def test_the_vault_is_read_in_pages(client: Client) -> None:
    for number in range(7):
        await commit(client, f"k{number}")

    assert [m["key"] for m in await read(client, "memory://vault?offset=2&limit=3")] == ["k2", "k3", "k4"]
    assert [m["key"] for m in await read(client, "memory://vault?limit=2")] == ["k0", "k1"]
    assert await read(client, "memory://vault?offset=7") == []
    assert len(await read(client, "memory://vault?offset=&limit=")) == 7
    contents = (await client.read_resource("memory://vault?offset=5&limit=1")).contents[0]
    assert contents.meta == {
        "memory-mcp/total": 7,
        "memory-mcp/next": "memory://vault?offset=6&limit=1",
        "memory-mcp/origins": {"k5": "mcp"},
    }


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "offset=-1", "offset=1.5", "limit=٣"])
async def test_a_page_out_of_bounds_is_refused(client: Client, query: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(f"memory://vault?{query}")

    assert caught.value.error.code == -32602
    assert caught.value.error.data["error"] == "invalid"
    assert caught.value.error.data["field"] == query.split("=")[0]


async def test_a_page_too_long_for_a_model_ends_earlier_and_says_where_to_go_on(client: Client) -> None:
    for number in range(5):
        await commit(client, f"k{number}", "x" * 30_000)

    contents = (await client.read_resource("memory://vault")).contents[0]
    assert len(json.loads(contents.text)) == 2  # type: ignore[union-attr]
    assert contents.meta is not None
    assert contents.meta["memory-mcp/total"] == 5
    assert contents.meta["memory-mcp/next"] == "memory://vault?offset=2&limit=100"


async def test_the_list_pages_through_every_memory_once(client: Client) -> None:
    for number in range(230):
        await commit(client, f"k{number}")

    uris, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        uris += [resource.uri for resource in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert uris[0] == "memory://vault"
    assert uris[1].startswith("memory://session/")
    assert uris[2:] == [f"memory://vault/k{number}" for number in range(230)]


@pytest.mark.parametrize(
    "cursor", ["x", "", "dmF1bHQveA==", "bm90ZXMvMQ==", "ü", "dmF1bHQvOTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk="]
)
async def test_a_cursor_that_is_not_ours_is_refused(client: Client, cursor: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.list_resources(cursor=cursor)

    assert caught.value.error.code == -32602
    assert caught.value.error.data["error"] == "invalid"


async def test_another_session_is_not_found(mcp_server: McpServer, era: str) -> None:
    async with connected(mcp_server, mode=era) as mine, connected(mcp_server, mode=era) as yours:
        await commit(mine, "secret", "x", "session")
        address = next(r.uri for r in (await mine.list_resources()).resources if "session" in r.uri)

        assert len(await read(mine, address)) == 1
        with pytest.raises(MCPError) as caught:
            await yours.read_resource(address)
        assert caught.value.error.data == {"error": "not_found", "uri": address}


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_another_session_cannot_be_listened_to(mcp_server: McpServer) -> None:
    async with connected(mcp_server) as mine, connected(mcp_server) as yours:
        address = next(r.uri for r in (await mine.list_resources()).resources if "session" in r.uri)
        await mine.subscribe_resource(address)
        for uri in (address, "memory://elsewhere", "junk"):
            with pytest.raises(MCPError) as caught:
                await yours.subscribe_resource(uri)
            assert caught.value.error.data == {"error": "not_found", "uri": uri}


async def test_templates_and_their_completions(client: Client) -> None:
    for key in ("apple", "apricot", "pear"):
        await commit(client, key)
    templates = (await client.list_resource_templates()).resource_templates

    assert [template.uri_template for template in templates] == [
        "memory://vault{?offset,limit}",
        "memory://vault/{key}",
        "memory://session/{session_id}",
    ]
    reference = ResourceTemplateReference(type="ref/resource", uri="memory://vault/{key}")
    completed = await client.complete(reference, {"name": "key", "value": "ap"})
    assert completed.completion.values == ["apple", "apricot"]


async def test_a_named_session_is_read_under_its_name(client: Client) -> None:
    await call(client, "set_session_id", session_id="weekly / planning")
    await commit(client, "k", "x", "session")

    [memory] = await read(client, "memory://session/weekly%20%2F%20planning")
    assert memory["key"] == "k"
