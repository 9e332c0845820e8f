"""One search over everything: what it finds, how hits look, and what narrows it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import Scope
from memory_mcp.server.protocol import McpServer
from memory_mcp.server.stdio import local_client
from memory_mcp.services.sessions import Connection
from tests.conftest import Clock, connected
from tests.families.notes.calls import call, refusal
from tests.families.recall.calls import FAMILIES, hits, opened, recall, refs, write_everywhere
from tests.families.stores.calls import register, write

TEAPOT = "Aunt Berta keeps her savings in the blue teapot."

pytestmark = pytest.mark.anyio


async def test_each_family_is_found_and_each_ref_opens(client: Client) -> None:
    kept = await write_everywhere(client, TEAPOT, portals=True)
    found = await hits(client, "teapot savings")
    assert {hit["family"]: hit["ref"] for hit in found} == kept
    for hit in found:
        assert TEAPOT in await opened(client, hit["ref"])
        assert "teapot" in hit["snippet"]
        assert hit["why"] == "its words"
    titles = {hit["family"]: hit["title"] for hit in found}
    assert titles == {
        "vault": "one",
        "notes": TEAPOT,
        "stores": "days/one",
        "graph": "one",
        "portals": f"turns: {TEAPOT}",
    }
    assert await refs(client, "turns") == [kept["portals"]]
    assert (await recall(client, "teapot"))["searched"] == FAMILIES
    assert "notice" not in await recall(client, "teapot")


async def test_an_empty_result_names_the_searched_families(client: Client) -> None:
    notice = "Nothing fits this query. Try other words or fewer filters; recall_overview shows what there is."
    assert await recall(client, "zeppelin") == {"hits": [], "searched": FAMILIES, "incomplete": [], "notice": notice}


async def test_an_expression_that_matches_nothing_in_any_family_falls_back_to_its_words(client: Client) -> None:
    await write_everywhere(client, TEAPOT)
    note = await call(client, "memory_create", content="The teapot is cracked.")
    exact = await recall(client, "teapot NOT savings")
    assert [hit["ref"] for hit in exact["hits"]] == [f"memory://note/{note['id']}"]  # others have both words
    assert "notice" not in exact
    plain = await recall(client, "savings AND zeppelin")
    assert {hit["family"] for hit in plain["hits"]} == {"vault", "notes", "stores", "graph"}
    assert plain["notice"] == "Nothing matches this FTS5 expression as a whole; these match some of its words."


async def test_refs_of_odd_names_open_too(client: Client, app: App, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = "50% of a/b & ü? #1"
    await call(client, "commit_memory", scope="vault", key=name, content="a wombat in the vault")
    await call(client, "create_project", name="house")
    entity = {"name": name, "entity_type": "thing", "observations": ["a wombat in the graph"]}
    await call(client, "create_entities", project="house", entities=[entity])
    folder = register(app, tmp_path_factory.mktemp("elsewhere"), "mine")
    write(folder, "two words/50% ü.md", "a wombat in a file\n")
    found = await hits(client, "wombat")
    assert {hit["family"] for hit in found} == {"vault", "graph", "stores"}
    for hit in found:
        assert " " not in hit["ref"]
        assert "wombat" in await opened(client, hit["ref"])


async def test_names_are_searched_as_contents_are(client: Client) -> None:
    kept = await write_everywhere(client, "boil it twice", name="samovar")
    assert {kept["vault"], kept["stores"], kept["graph"]} == set(await refs(client, "samovar"))


# What narrows it


async def test_families_narrow_the_search(client: Client) -> None:
    kept = await write_everywhere(client, TEAPOT)
    answer = await recall(client, "teapot", families=["graph", "vault", "graph"])
    assert {hit["ref"] for hit in answer["hits"]} == {kept["graph"], kept["vault"]}
    assert answer["searched"] == ["vault", "graph"]


async def test_hits_have_all_the_tags(client: Client) -> None:
    both = await write_everywhere(client, TEAPOT, "both", tags=["Family", "money"])
    await write_everywhere(client, TEAPOT, "one", tags=["money"])
    tagged = {both["vault"], both["notes"], both["stores"]}
    assert set(await refs(client, "teapot", tags=["family", "MONEY"])) == tagged
    assert tagged < set(await refs(client, "teapot", tags=["money"]))
    assert await refs(client, "teapot", tags=["house"]) == []
    await call(client, "commit_memory", scope="vault", key="old", content=TEAPOT, tags=["archived"])
    assert await refs(client, "teapot", tags=["archived"]) == ["memory://vault/old"]


async def test_internal_words_and_tags_find_nothing(client: Client) -> None:
    """What the copies are marked with must find nothing."""
    await write_everywhere(client, TEAPOT)
    for word in (*FAMILIES, "family", "diary", "bookmarks", "import"):
        found = await refs(client, word)
        assert found == [], (word, found)
        assert await refs(client, "teapot", tags=[f"family/{word}"]) == []
        assert await refs(client, "teapot", tags=[word]) == []


async def test_a_limit_is_kept_over_all_families(client: Client) -> None:
    await write_everywhere(client, TEAPOT)
    await write_everywhere(client, f"{TEAPOT} So they say.", "two")
    all_of_them = await refs(client, "teapot")
    assert len(all_of_them) == 8
    assert await refs(client, "teapot", limit=3) == all_of_them[:3]
    assert (await refusal(client, "recall_memories", query="x", limit=0))["error"] == "invalid"
    assert (await refusal(client, "recall_memories", query="x", limit=101))["error"] == "invalid"


async def test_an_unknown_family_is_refused(client: Client) -> None:
    refused = await refusal(client, "recall_memories", query="x", families=["poems"])
    assert refused["error"] == "invalid"
    for family in FAMILIES:
        assert family in refused["message"]


@pytest.mark.parametrize("query", ["", " ", "\n\t "])
async def test_a_query_needs_words(client: Client, query: str) -> None:
    refused = await refusal(client, "recall_memories", query=query)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", "query")


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        '"teapot',
        "teapot*",
        "teapot AND",
        "NEAR(teapot",
        "title: teapot",
        "-teapot",
        "(teapot",
        "{teapot}",
        "%",
    ],
)
async def test_unusual_queries_are_searched_literally(client: Client, query: str) -> None:
    await write_everywhere(client, TEAPOT)
    found = await hits(client, query)
    assert bool(found) == ("teapot" in query)


@pytest.mark.parametrize(
    ("text", "query"), [("今日は東京で会議", "東京"), ("party 🎉 tonight", "🎉"), ("Ωμέγα", "ωμέγα")]
)
async def test_other_scripts_and_emoji_are_found_in_every_family(client: Client, text: str, query: str) -> None:
    assert set(await refs(client, query)) == set()
    kept = await write_everywhere(client, text)
    assert set(await refs(client, query)) == set(kept.values())


async def test_a_query_may_be_long_but_not_endless(client: Client) -> None:
    kept = await write_everywhere(client, TEAPOT)
    long_query = ("teapot " * 2000)[:10_000]
    assert set(await refs(client, long_query)) == set(kept.values())
    assert (await refusal(client, "recall_memories", query=long_query + "x"))["error"] == "invalid"


# Who may search what


@pytest.fixture
async def narrow(tmp_path: Path, clock: Clock) -> AsyncIterator[Any]:
    loaded = settings.load({"data_dir": tmp_path, "embedder": "none", "families": "notes,graph,recall"}, environ={})
    with open_app(loaded.settings, clock=clock) as app:
        async with connected(McpServer(app)) as client:
            yield client


async def test_a_family_that_is_switched_off_is_not_searched(narrow: Client) -> None:
    answer = await recall(narrow, "anything")
    assert answer["searched"] == ["notes", "graph"]
    refused = await refusal(narrow, "recall_memories", query="x", families=["notes", "vault"])
    assert "Use any of: notes, graph." in refused["message"]


async def test_a_caller_searches_the_families_it_may_read(client: Client, mcp_server: McpServer) -> None:
    kept = await write_everywhere(client, TEAPOT)
    line = local_client(mcp_server.app)
    some = replace(line, caller=replace(line.caller, families=frozenset({"stores", "notes", "recall"})))
    async with connected(mcp_server, some) as other:
        assert set(await refs(other, "teapot")) == {kept["stores"], kept["notes"]}
        refused = await refusal(other, "recall_memories", query="x", families=["vault"])
        assert "Use any of: notes, stores." in refused["message"]
    without = replace(line, caller=replace(line.caller, families=frozenset({"stores", "notes"})))
    async with connected(mcp_server, without) as other:
        with pytest.raises(MCPError, match="Unknown tool"):
            await other.call_tool("recall_memories", {"query": "teapot"})


async def test_recall_needs_the_right_to_read(mcp_server: McpServer) -> None:
    line = local_client(mcp_server.app)
    writer = replace(line, caller=replace(line.caller, scopes=frozenset({Scope.WRITE})))
    async with connected(mcp_server, writer) as other:
        refused = await refusal(other, "recall_memories", query="teapot")
    assert (refused["error"], refused["data"]["scope"]) == ("scope_required", "read_memory")


async def test_tenants_never_find_each_others_data(client: Client, mcp_server: McpServer) -> None:
    kept = await write_everywhere(client, TEAPOT)
    line = local_client(mcp_server.app)
    ann = replace(line, caller=replace(line.caller, user="ann"), connection=Connection("ann", "hers"))
    async with connected(mcp_server, ann) as other:
        assert await refs(other, "teapot") == []
        hers = await write_everywhere(other, f"{TEAPOT} Or in the red one.")
        assert set(await refs(other, "teapot")) == set(hers.values())
        assert all("red" in hit["snippet"] for hit in await hits(other, "teapot"))
    assert all("red" not in hit["snippet"] for hit in await hits(client, "teapot"))
    assert set(await refs(client, "teapot")) == set(kept.values())


async def test_the_scratchpad_of_this_session_is_found_and_no_others(client: Client, mcp_server: McpServer) -> None:
    await call(client, "commit_memory", scope="session", key="draft", content=TEAPOT, tags=["money"])
    [hit] = await hits(client, "teapot", tags=["money"])
    assert hit["ref"].startswith("memory://session/")
    assert (hit["family"], hit["title"], hit["snippet"]) == ("vault", "draft", TEAPOT)
    assert TEAPOT in await opened(client, hit["ref"])
    assert await refs(client, "teapot", tags=["other"]) == []
    async with connected(mcp_server) as other:
        assert await refs(other, "teapot") == []


async def test_drafts_and_stored_memories_are_ranked_alike(client: Client) -> None:
    await call(client, "commit_memory", scope="session", key="draft", content="the blue teapot")
    kept = await write_everywhere(client, "the blue teapot")
    scores = {hit["ref"]: hit["score"] for hit in await hits(client, "blue teapot")}
    assert len(scores) == len(kept) + 1
    assert max(scores.values()) - min(scores.values()) < 0.1


# How much an answer holds


async def test_the_size_of_an_answer_is_limited(client: Client) -> None:
    for number in range(100):
        key = f"{number:03}{chr(0x6F22) * 500}"
        await call(client, "commit_memory", scope="vault", key=key, content="a wombat")
    answer = await recall(client, "wombat", limit=100)
    assert 10 < len(answer["hits"]) < 100
    assert f"{100 - len(answer['hits'])} more hits" in answer["notice"]
    assert len(str(answer["hits"])) < 20_000 * 4


async def test_only_the_beginning_of_a_long_text_is_searched(client: Client) -> None:
    long = f"a wombat {'word ' * 60_000} a zebra"
    await call(client, "commit_memory", scope="vault", key="long", content=long)
    assert await refs(client, "wombat") == ["memory://vault/long"]
    assert await refs(client, "zebra") == []


async def test_a_file_without_text_is_found_by_its_name(client: Client, app: App, elsewhere: Path) -> None:
    write(elsewhere, "wombat.md", "")
    register(app, elsewhere, "mine")
    [hit] = await hits(client, "wombat")
    assert (hit["ref"], hit["title"]) == ("stores:mine/wombat", "wombat")


async def test_a_file_written_just_after_the_question_comes_before_an_equal_one(
    client: Client, app: App, elsewhere: Path, clock: Clock
) -> None:
    register(app, elsewhere, "mine")
    for session, path in (("talk", "answer"), ("elsewhere", "stranger")):
        await call(client, "set_session_id", session_id=session)
        if session == "talk":
            await call(client, "commit_memory", scope="vault", key="asked", content="Which harbour did Maria paint?")
        clock.now += timedelta(seconds=1)
        await call(client, "add_memory", store="mine", path=path, content="It was the old harbour.")
    write(elsewhere, "person.md", "It was the old harbour.\n")
    found = await refs(client, "harbour Maria paint")
    assert found[:2] == ["memory://vault/asked", "stores:mine/answer"]
    assert {*found[2:]} == {"stores:mine/person", "stores:mine/stranger"}
