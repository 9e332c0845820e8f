"""What was created in a span of time, in every family and both eras of the protocol."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.conftest import ERAS, Clock
from tests.families.notes.calls import call, refusal
from tests.families.recall.calls import PORTAL, hits, recall, write_everywhere
from tests.families.stores.calls import register, write

pytestmark = pytest.mark.anyio

MONDAY = datetime(2030, 1, 7, 9, tzinfo=UTC)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def options() -> dict[str, Any]:
    return {"durability": "normal", "timezone": "UTC"}


async def test_each_family_finds_what_was_created_in_the_span(client: Client, clock: Clock) -> None:
    clock.now = MONDAY
    first = await write_everywhere(client, "Tea on Monday", "monday")
    clock.now = MONDAY + timedelta(days=2)
    later = await write_everywhere(client, "Tea on Wednesday", "wednesday")
    answer = await recall(client, "tea", after="today")
    assert {hit["family"]: hit["ref"] for hit in answer["hits"]} == later
    assert {hit["created_at"] for hit in answer["hits"]} == {"2030-01-09T09:00:00Z"}
    assert answer["searched_span"] == {"after": "2030-01-09T00:00:00.000Z", "before": None}
    found = await hits(client, "tea", before="2 days ago")
    assert {hit["family"]: hit["ref"] for hit in found} == first
    assert len(await hits(client, "tea", after="since Monday")) == 8
    assert len(await hits(client, "tea", after="in January", before="this week")) == 8
    assert await hits(client, "tea", after="last week", before="last week") == []
    assert "searched_span" not in await recall(client, "tea")


async def test_without_a_query_a_span_lists_the_newest_first(client: Client, clock: Clock) -> None:
    kept = []
    for day in range(3):
        clock.now = MONDAY + timedelta(days=day)
        kept.append(set((await write_everywhere(client, f"day {day}", f"day-{day}")).values()))
    note = await call(client, "memory_create", content="the same day", importance=0.1)
    kept[2].add(f"memory://note/{note['id']}")
    listed = await recall(client, " ", after="since yesterday", limit=100)
    refs = [hit["ref"] for hit in listed["hits"]]
    assert set(refs[:5]) == kept[2]
    assert set(refs[5:]) == kept[1]
    assert {hit["why"] for hit in listed["hits"]} == {"its time"}
    assert "notice" not in listed
    some = await recall(client, "", after="since Monday", limit=3)
    assert [hit["created_at"] for hit in some["hits"]] == ["2030-01-09T09:00:00Z"] * 3
    assert some["notice"] == "There are older ones: raise the limit, or give a time from this list as before."
    none = await recall(client, "", before="2029")
    assert (none["hits"], none["notice"]) == (
        [],
        "Nothing was created in this span. Widen it, or leave families and tags out.",
    )
    refused = await refusal(client, "recall_memories", query="")
    assert refused["message"] == (
        "Give words to look for. With after or before, an empty query lists what was created in a span; "
        "recall_overview shows what there is."
    )


async def test_hits_say_where_they_belong(client: Client) -> None:
    await call(client, "memory_create", content="Tea is served at five.", namespace="work")
    await call(client, "commit_memory", scope="vault", key="k", content="Tea is served at five.")
    await call(client, "commit_memory", scope="session", key="draft", content="Tea is served at five.")
    found = await hits(client, "tea served")
    facts = {hit["title"]: (hit.get("namespace"), hit.get("source")) for hit in found}
    assert facts == {"Tea is served at five.": ("work", "mcp"), "k": (None, None), "draft": (None, None)}
    assert all(hit["created_at"] == hit["updated_at"] == "2030-01-01T12:00:00Z" for hit in found)


async def test_the_scratchpad_and_rows_have_times(client: Client, clock: Clock) -> None:
    await call(client, "commit_memory", scope="session", key="draft", content="tea")
    row = {"role": "user", "content": "tea", "timestamp": "2030-01-01 08:00:00"}
    await call(client, "portal_write", portalUri=PORTAL, table="messages", data=[row])
    found = {hit["family"]: hit for hit in await hits(client, "tea", after="today", before="today")}
    assert found["vault"]["title"] == "draft"
    assert (found["portals"]["created_at"], found["portals"]["namespace"]) == ("2030-01-01T08:00:00Z", "tests")
    assert await hits(client, "tea", before="yesterday") == []


async def test_memories_without_a_time_are_left_out_with_a_notice(client: Client, app: App, elsewhere: Any) -> None:
    register(app, elsewhere, "notebook")
    write(elsewhere, "plain.md", "tea without a time")
    write(elsewhere, "dated.md", "---\nupdated_at: 2030-01-01T08:00:00Z\n---\ntea with a time")
    await call(client, "commit_memory", scope="vault", key="k", content="tea")
    answer = await recall(client, "tea", after="yesterday")
    assert {hit["ref"] for hit in answer["hits"]} == {"memory://vault/k", "stores:notebook/dated"}
    assert answer["notice"] == "Memories without a time, which stores have, are not found with a span."
    whole = await recall(client, "tea")
    assert {hit["created_at"] for hit in whole["hits"] if hit["family"] == "stores"} == {None}
    assert "notice" not in whole


async def test_words_that_are_no_time_are_refused_with_the_accepted_forms(client: Client) -> None:
    for tool, field in (("recall_memories", "after"), ("memory_search", "created_before")):
        refused = await refusal(client, tool, query="tea", **{field: "in the good old days"})
        assert refused["data"] == {"field": field}
        assert "last 3 hours" in refused["message"]


async def test_memory_search_takes_the_same_words(client: Client, clock: Clock) -> None:
    clock.now = MONDAY
    await call(client, "memory_create", content="Tea on Monday", namespace="work")
    clock.now += timedelta(days=1)
    await call(client, "memory_create", content="Tea on Tuesday")
    answer = await call(client, "memory_search", query="tea", created_after="yesterday", created_before="yesterday")
    [hit] = answer["memories"]
    assert (hit["title"], hit["namespace"]) == ("Tea on Monday", "work")
    assert hit["created_at"] == hit["updated_at"] == "2030-01-07T09:00:00.000Z"
    assert answer["searched_span"] == {"after": "2030-01-07T00:00:00.000Z", "before": "2030-01-08T00:00:00.000Z"}
    assert set(hit["score_breakdown"]) == {"cosine", "lexical", "importance"}
    assert "source" not in hit
    [plain] = (await call(client, "memory_search", query="Monday", details=False))["memories"]
    assert "score_breakdown" not in plain
