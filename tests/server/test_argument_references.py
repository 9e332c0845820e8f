"""Where a tool takes an id, a key, a path or a name, it takes a reference to it."""

from dataclasses import replace
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_mcp.app import App
from memory_mcp.caller import Scope
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.stdio import local_client
from tests.conftest import ERAS, connected
from tests.families.notes.calls import call, refusal

pytestmark = pytest.mark.anyio

PORTAL = "mem://tests/talk"


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ref_of(note: dict[str, Any]) -> str:
    return f"memory://note/{note['id']}"


async def test_notes(client: Client) -> None:
    one, two = [await call(client, "memory_create", content=text, namespace="home") for text in ("One", "Two")]
    assert (await call(client, "memory_get", id=ref_of(one)))["id"] == one["id"]
    assert await call(client, "memory_link", source_id=ref_of(one), target_id=ref_of(two)) == {"linked": 1}
    nodes = (await call(client, "memory_neighbors", id=ref_of(one)))["nodes"]
    assert {node["id"] for node in nodes} == {one["id"], two["id"]}
    three = await call(client, "memory_create", content="Three", supersedes=[ref_of(one)])
    assert (await call(client, "memory_get", id=one["id"]))["superseded_by"] == three["id"]
    assert (await call(client, "memory_update", id=ref_of(two), title="Second"))["title"] == "Second"
    listed = await call(client, "memory_recent", namespace="memory://namespace/home")
    assert {note["namespace"] for note in listed["memories"]} == {"home"}
    assert (await call(client, "memory_delete", id=ref_of(two)))["id"] == two["id"]


async def test_the_vault(client: Client) -> None:
    for content in ("first", "second"):  # a reference to a key writes to it
        await call(client, "commit_memory", scope="vault", key="memory://vault/tea%20pot", content=content)
    [hit] = (await call(client, "search_memories", query="second"))["results"]
    assert hit["key"] == "tea pot"
    assert (await call(client, "prune_memory", scope="vault", key="memory://vault/tea%20pot")) == {"pruned_count": 1}


async def test_stores(client: Client) -> None:
    await call(client, "add_memory", path="stores:diary/days/one", content="I wrote it")
    for arguments in ({"path": "stores:diary/days/one"}, {"store": "stores:diary", "path": "days/one"}):
        assert (await call(client, "get_memory", **arguments))["content"] == "I wrote it"
    listed = await call(client, "list_memories", category="stores:diary/days")
    assert [one["path"] for one in listed["memories"]] == ["days/one"]
    moved = await call(client, "move_memory", from_path="stores:diary/days/one", to_path="days/two")
    assert (moved["store"], moved["to_path"]) == ("diary", "days/two")
    with pytest.raises(MCPError, match="names 'diary', and store is another"):
        await client.call_tool("get_memory", {"store": "other", "path": "stores:diary/days/two"})


async def test_the_graph(client: Client) -> None:
    await call(client, "create_project", name="house")
    await call(client, "create_project", name="work")  # the active one
    entities = [{"name": name, "entity_type": "person"} for name in ("Ann Lee", "Bo")]
    await call(client, "create_entities", project="graph:house", entities=entities)
    found = await call(client, "open_nodes", names=["graph:house/Ann%20Lee", "Bo"])
    assert [entity["name"] for entity in found["entities"]] == ["Ann Lee", "Bo"]
    relation = {"from": "graph:house/Ann%20Lee", "to": "graph:house/Bo", "relation_type": "knows"}
    assert len((await call(client, "create_relations", relations=[relation]))["relations"]) == 1
    fact = {"entity_name": "graph:house/Bo", "contents": ["Bo likes tea"]}
    assert len((await call(client, "add_observations", observations=[fact]))["observations"]) == 1
    assert (await call(client, "delete_entities", names=["graph:house/Bo"])) == {"deleted_count": 1}
    refused = await refusal(client, "open_nodes", names=["graph:house/Bo", "graph:work/Bo"])
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "names.1")


async def test_portals(client: Client) -> None:
    table = f"{PORTAL}/turns"
    written = await call(client, "portal_write", portalUri=table, data=[{"n": 1}, {"n": 2}])
    assert (written["portalUri"], written["table"]) == (PORTAL, "turns")
    assert (await call(client, "portal_query", portalUri=table, sql="SELECT n FROM turns"))["rowCount"] == 2
    deleted = await call(client, "portal_delete", portalUri=table, where={"n": 1})
    assert (deleted["table"], deleted["deleted"]) == ("turns", 1)
    refused = await refusal(client, "portal_delete", portalUri=table, table="other", confirm=True)
    assert (refused["error"], refused["data"]) == ("invalid", {"field": "table"})
    assert (await call(client, "portal_delete", portalUri=table, confirm=True))["deleted"] == 1
    assert (await call(client, "portal_view", portalUri=PORTAL))["tables"] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("memory_get", {"id": "stores:diary/one"}, "a reference of stores, not of notes. get_memory or recall_open"),
        ("memory_get", {"id": "memory://vault/k"}, "a reference of vault, not of notes. recall_open takes it."),
        ("open_nodes", {"names": ["memory://note/x"]}, "names.0: 'memory://note/x' is a reference of notes"),
        ("portal_query", {"portalUri": "graph:house/Ann", "sql": "SELECT 1"}, "open_nodes or recall_open takes it."),
    ],
)
async def test_a_reference_of_another_family_is_refused(
    client: Client, tool: str, arguments: dict[str, Any], words: str
) -> None:
    refused = await refusal(client, tool, **arguments)
    assert refused["error"] == "invalid"
    assert words in refused["message"]


async def test_the_hint_names_only_tools_that_the_caller_has(app: App) -> None:
    line = local_client(app)
    writer = replace(line, caller=replace(line.caller, scopes=frozenset({Scope.WRITE})))
    async with connected(McpServer(app), writer) as client:
        refused = await refusal(client, "memory_update", id="stores:diary/one", title="x")
    assert refused["message"].endswith("is a reference of stores, not of notes.")


async def test_new_names_may_look_like_references(client: Client) -> None:
    await call(client, "commit_memory", scope="vault", key="graph:a/b", content="kept")
    assert (await call(client, "recall_open", ref="memory://vault/graph%3Aa%2Fb"))["content"] == "kept"
    with pytest.raises(MCPError, match="recall_open takes it"):
        await client.call_tool("prune_memory", {"scope": "vault", "key": "graph:a/b"})
    assert await call(client, "prune_memory", scope="vault", key="memory://vault/graph%3Aa%2Fb") == {"pruned_count": 1}
