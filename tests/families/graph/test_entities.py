import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from mcp import Client

from memory_mcp.families.graph import storage
from memory_mcp.families.graph.answers import MAX_ANSWER_BYTES
from tests.conftest import Clock
from tests.families.notes.calls import call, refusal

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(client: Client) -> Client:
    """A client that works in a project."""
    await call(client, "create_project", name="house")
    return client


async def names(client: Client, query: str, **more: object) -> list[str]:
    found = await call(client, "search_nodes", query=query, **more)
    return [entity["name"] for entity in found["entities"]]


async def entity(client: Client, name: str, *observations: str, kind: str = "thing") -> None:
    new = {"name": name, "entity_type": kind, "observations": list(observations)}
    await call(client, "create_entities", entities=[new])


async def relate(client: Client, source: str, target: str, kind: str = "uses") -> dict[str, Any]:
    relation = {"from": source, "to": target, "relation_type": kind}
    return await call(client, "create_relations", relations=[relation])


async def test_entities_come_back_as_the_contract_shows_them(client: Client) -> None:
    new = [
        {"name": "Postgres", "entity_type": "database", "observations": ["port 5432", "port 5432"]},
        {"name": "Ann", "entity_type": "person"},
        {"name": "Ann", "entity_type": "cat"},
    ]
    made = await call(client, "create_entities", entities=new)

    assert made["skipped"] == ["Ann"]
    assert [(one["name"], one["entity_type"], one["observations"]) for one in made["entities"]] == [
        ("Postgres", "database", ["port 5432"]),
        ("Ann", "person", []),
    ]
    assert set(made["entities"][0]) == {"id", "name", "entity_type", "observations", "created_at", "updated_at"}
    assert made["entities"][0]["created_at"] == "2030-01-01T12:00:00Z"
    again = await call(client, "create_entities", entities=new)
    notice = again.pop("notice")
    assert again == {"entities": [], "skipped": ["Postgres", "Ann", "Ann"]}
    assert "exist already" in notice


async def test_an_existing_name_says_what_was_not_stored_and_what_to_call(client: Client) -> None:
    await entity(client, "Ann", "likes tea")
    new = [
        {"name": "Ann", "entity_type": "t", "observations": ["likes tea", "sings"]},
        {"name": "Bob", "entity_type": "t", "observations": ["likes rain"]},
        {"name": "Ann", "entity_type": "t", "observations": ["sings", "dances"]},
        {"name": "Bob", "entity_type": "t", "observations": ["likes rain"]},
    ]
    made = await call(client, "create_entities", entities=new)

    assert [one["name"] for one in made["entities"]] == ["Bob"]
    assert made["skipped"] == ["Ann", "Ann", "Bob"]
    assert made["not_stored"] == [{"name": "Ann", "observations": ["sings", "dances"]}]
    assert "add_observations" in made["notice"]
    left_over = [{"entity_name": one["name"], "contents": one["observations"]} for one in made["not_stored"]]
    await call(client, "add_observations", observations=left_over)
    assert "not_stored" not in await call(client, "create_entities", entities=new)


async def test_lower_bounds_are_declared(client: Client) -> None:
    listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    name = listed["create_project"]["properties"]["name"]
    entities = listed["create_entities"]["properties"]["entities"]
    assert (name["minLength"], entities["minItems"]) == (1, 1)
    assert entities["items"]["properties"]["observations"]["default"] == []
    assert (await refusal(client, "create_entities", entities=[]))["error"] == "invalid"
    assert (await refusal(client, "create_project", name=""))["error"] == "invalid"
    assert (await refusal(client, "read_graph", project=""))["error"] == "not_found"


async def test_observations_are_added_once(client: Client) -> None:
    await entity(client, "Ann")
    facts = [{"entity_name": "Ann", "contents": ["likes tea", "likes tea", "plays chess"]}]
    added = await call(client, "add_observations", observations=facts)

    assert [one["content"] for one in added["observations"]] == ["likes tea", "plays chess"]
    assert set(added["observations"][0]) == {"id", "entity_name", "content", "created_at"}
    assert added["skipped"] == [{"entity_name": "Ann", "content": "likes tea"}]


async def test_unknown_names_are_named_and_nothing_is_added(client: Client) -> None:
    await entity(client, "Ann")
    facts = [{"entity_name": name, "contents": ["x"]} for name in ("Ann", "Bob", "Cy")]
    refused = await refusal(client, "add_observations", observations=facts)
    assert (refused["error"], refused["data"]) == ("not_found", {"missing": ["Bob", "Cy"]})
    assert "'Bob', 'Cy'" in refused["message"]

    relations = [
        {"from": "Ann", "to": "Ann", "relation_type": "knows"},
        {"from": "Ann", "to": "Bob", "relation_type": "knows"},
    ]
    refused = await refusal(client, "create_relations", relations=relations)
    assert refused["data"] == {"missing": ["Bob"]}

    graph = await call(client, "read_graph")
    assert graph["entities"][0]["observations"] == []
    assert graph["relations"] == []


async def test_relations_are_made_once_and_found_with_either_end(client: Client) -> None:
    await entity(client, "Ann")
    await entity(client, "Postgres")
    await entity(client, "Alone")
    made = await relate(client, "Ann", "Postgres")
    again = await relate(client, "Ann", "Postgres")

    [relation] = made["relations"]
    assert set(relation) == {"id", "from", "to", "relation_type", "created_at"}
    assert again == {"relations": [], "skipped": [{"from": "Ann", "to": "Postgres", "relation_type": "uses"}]}
    for name in ("Ann", "Postgres"):
        opened = await call(client, "open_nodes", names=[name])
        assert opened["relations"] == [relation]
    assert (await call(client, "open_nodes", names=["Alone", "unknown"]))["relations"] == []


async def test_search_ranks_over_names_types_and_observations(client: Client) -> None:
    await entity(client, "Kafka", "keeps the order of events", kind="technology")
    await entity(client, "Ann", "introduced Kafka, Kafka and Kafka", kind="person")
    await entity(client, "Bob", "likes music", kind="person")

    assert (await names(client, "kafka"))[0] == "Kafka"
    assert set(await names(client, "kafka")) == {"Kafka", "Ann"}
    assert set(await names(client, "persons")) == {"Ann", "Bob"}
    assert (await names(client, "who introduced kafka?"))[0] == "Ann"
    assert await names(client, "person", limit=1) != []
    assert len(await names(client, "person", limit=1)) == 1


async def test_words_are_found_together_though_they_stand_in_different_observations(client: Client) -> None:
    await entity(client, "Both", "made of wood", "painted green")
    await entity(client, "One", "painted white")
    assert (await names(client, "green wood"))[0] == "Both"


async def test_operators_that_match_nothing_fall_back_to_plain_words_and_say_so(client: Client) -> None:
    entities = [{"name": "Alice", "entity_type": "person", "observations": ["likes green tea"]}]
    await call(client, "create_entities", entities=entities)
    answer = await call(client, "search_nodes", query="Alice AND espresso")
    assert [entity["name"] for entity in answer["entities"]] == ["Alice"]
    assert "some of its words" in answer["notice"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("apple AND pear", {"both"}),
        ("apple NOT pear", {"apple"}),
        ("appl*", {"both", "apple"}),
        ('"apple pear"', {"both"}),
        ("name:apple", {"apple"}),
        ("content:apple", {"both", "apple"}),
        ("entity_type:fruit", {"both", "apple", "plum"}),
    ],
)
async def test_fts5_syntax_means_what_it_says(client: Client, query: str, expected: set[str]) -> None:
    await entity(client, "both", "apple pear", kind="fruit")
    await entity(client, "apple", "an apple a day", kind="fruit")
    await entity(client, "plum", "blue", kind="fruit")
    assert set(await names(client, query)) == expected


@pytest.mark.parametrize(
    "query", ["what's new?", "c++", '"', "AND", "foo:bar", "(((", "*", "NEAR(", "🎉", "{x}: y", "\x00"]
)
async def test_no_query_is_an_error(client: Client, query: str) -> None:
    await entity(client, "x", "y")
    assert isinstance(await names(client, query), list)


async def test_other_scripts_and_camel_case_are_found(client: Client) -> None:
    await entity(client, "東京", "首都です")
    await entity(client, "parseHttpRequest", "a function 🎉")
    assert await names(client, "首都") == ["東京"]
    assert await names(client, "東京") == ["東京"]
    assert await names(client, "http request") == ["parseHttpRequest"]
    assert await names(client, "🎉") == ["parseHttpRequest"]


async def test_deleted_entities_stay_hidden_and_can_be_created_again(client: Client) -> None:
    await entity(client, "Ann", "likes tea")
    await entity(client, "Bob", "likes tea")
    await relate(client, "Ann", "Bob")

    assert await call(client, "delete_entities", names=["Ann", "Ann", "unknown"]) == {"deleted_count": 1}
    assert await names(client, "tea") == ["Bob"]
    assert await names(client, "likes AND tea") == ["Bob"]
    assert (await call(client, "open_nodes", names=["Ann"])) == {"entities": [], "relations": []}
    assert (await call(client, "read_graph"))["relations"] == []

    await entity(client, "Ann", "likes coffee")
    assert await names(client, "ann") == ["Ann"]
    assert await names(client, "coffee") == ["Ann"]
    assert await names(client, "tea") == ["Bob"]
    assert await call(client, "delete_entities", names=["Ann", "Bob"]) == {"deleted_count": 2}
    assert await call(client, "read_graph") == {"entities": [], "relations": []}


async def test_observations_and_relations_are_deleted_by_their_text(client: Client) -> None:
    await entity(client, "Ann", "likes tea", "plays chess")
    await relate(client, "Ann", "Ann", "knows")

    deletions = [{"entity_name": name, "observations": ["likes tea", "never said"]} for name in ("Ann", "unknown")]
    assert await call(client, "delete_observations", deletions=deletions) == {"deleted_count": 1}
    assert await names(client, "tea") == []
    assert await names(client, "chess") == ["Ann"]

    relation = {"from": "Ann", "to": "Ann", "relation_type": "knows"}
    other = {"from": "Ann", "to": "Bob", "relation_type": "knows"}
    assert await call(client, "delete_relations", relations=[relation, other]) == {"deleted_count": 1}
    assert await call(client, "delete_relations", relations=[relation]) == {"deleted_count": 0}
    again = await relate(client, "Ann", "Ann", "knows")
    assert len(again["relations"]) == 1


async def test_a_large_graph_is_read_page_by_page_each_thing_once(client: Client) -> None:
    for start in range(0, 900, 300):
        new = [
            {"name": f"n{number}", "entity_type": "t", "observations": ["x" * 200]}
            for number in range(start, start + 300)
        ]
        await call(client, "create_entities", entities=new)
    ties = [{"from": f"n{number}", "to": f"n{899 - number}", "relation_type": "t"} for number in range(900)]
    await call(client, "create_relations", relations=ties)

    seen, relations, offset, pages = [], [], 0, 0
    while True:
        page = await call(client, "read_graph", offset=offset)
        seen += [one["name"] for one in page["entities"]]
        relations += [one["id"] for one in page["relations"]]
        pages += 1
        if "notice" not in page:
            break
        offset = int(page["notice"].rstrip(".").split()[-1])
    assert pages > 1
    assert seen == [f"n{number}" for number in range(900)]
    assert len(relations) == len(set(relations)) == 900


async def test_an_entity_too_long_for_one_answer_is_opened_in_parts(client: Client) -> None:
    observations = [f"{number}: {'x' * 3000}" for number in range(60)]
    await call(client, "create_entities", entities=[{"name": "Ann", "entity_type": "t", "observations": observations}])

    seen, skip = [], 0
    while True:
        page = await call(client, "open_nodes", names=["Ann"], skip_observations=skip)
        seen += page["entities"][0]["observations"]
        if "notice" not in page:
            break
        skip = int(page["notice"].rstrip(".").split()[-1])
    assert seen == observations
    assert skip > 0
    for tool, arguments in (("search_nodes", {"query": "Ann"}), ("read_graph", {})):
        (shown,) = (await call(client, tool, **arguments))["entities"]
        assert 0 < len(shown["observations"]) < 60


async def test_a_page_says_who_wrote_its_entities_also_one_that_is_too_long_for_it(client: Client) -> None:
    await entity(client, "Ann", "likes tea")
    await entity(client, "Bob", *(f"{number}: {'x' * 3000}" for number in range(60)))
    opened = await call(client, "open_nodes", names=["Ann"])
    (origin,) = {one["origin"] for one in opened["entities"]}
    first = await call(client, "read_graph")
    assert [(one["name"], one["origin"]) for one in first["entities"]] == [("Ann", origin)]
    second = await call(client, "read_graph", offset=int(first["notice"].rstrip(".").split()[-1]))
    assert [(one["name"], one["origin"]) for one in second["entities"]] == [("Bob", origin)]


def size(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


async def everything_of(client: Client, page: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The observations and the relations (by id) of one entity, following the notices of an answer that shows it."""
    observations, relations = [], []
    while True:
        assert size(page) <= MAX_ANSWER_BYTES
        (shown,) = page["entities"]
        observations += shown["observations"]
        relations += [one["id"] for one in page["relations"]]
        if "has more" not in page.get("notice", ""):
            return observations, relations
        names, *skips = re.search(r"call open_nodes with names (\[.*\])((?: and \w+ \d+)+)\.", page["notice"]).groups()  # type: ignore[union-attr]
        arguments = {name: int(count) for name, count in re.findall(r"and (\w+) (\d+)", skips[0])}
        page = await call(client, "open_nodes", names=json.loads(names), **arguments)


async def hub(client: Client, observations: int) -> None:
    """An entity with 1,500 relations, half of which start at it."""
    await entity(client, "hub", *(f"{number}: {'x' * 3000}" for number in range(observations)))
    for start in (0, 500, 1000):
        spokes = [{"name": f"n{number}", "entity_type": "t"} for number in range(start, start + 500)]
        await call(client, "create_entities", entities=spokes)
        ties = [("hub", f"n{n}") if n % 2 else (f"n{n}", "hub") for n in range(start, start + 500)]
        relations = [{"from": source, "to": target, "relation_type": "t"} for source, target in ties]
        await call(client, "create_relations", relations=relations)


@pytest.mark.parametrize("observations", [0, 1, 60])
async def test_every_relation_of_a_hub_is_reached_by_following_the_notices(client: Client, observations: int) -> None:
    await hub(client, observations)
    for page in (
        await call(client, "open_nodes", names=["hub"]),
        await call(client, "search_nodes", query="hub", limit=1),
        await call(client, "read_graph"),
    ):
        found, relations = await everything_of(client, page)
        assert len(found) == len(set(found)) == observations
        assert len(relations) == len(set(relations)) == 1500
    assert " and skip_relations " in page["notice"]


async def test_a_graph_with_a_hub_is_read_page_by_page_within_the_budget(client: Client) -> None:
    await hub(client, 0)
    seen, relations = [], set()
    offset: int | None = 0
    while offset is not None:
        page = await call(client, "read_graph", offset=offset)
        assert size(page) <= MAX_ANSWER_BYTES
        seen += [one["name"] for one in page["entities"]]
        relations |= {one["id"] for one in page["relations"]}
        if "has more" in page.get("notice", ""):
            relations |= set((await everything_of(client, page))[1])
        found = re.search(r"read_graph with offset (\d+)", page.get("notice", ""))
        offset = int(found[1]) if found else None
    assert seen == ["hub", *(f"n{number}" for number in range(1500))]
    assert len(relations) == 1500


async def test_with_several_entities_whose_relations_are_too_many_it_says_how_to_get_them(client: Client) -> None:
    await hub(client, 0)
    page = await call(client, "open_nodes", names=["hub", "n0"])
    assert size(page) <= MAX_ANSWER_BYTES
    assert [one["name"] for one in page["entities"]] == ["hub", "n0"]
    assert "open_nodes with one name at a time" in page["notice"]


async def test_no_more_is_read_than_is_shown(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(40)]
    for name in names:
        await entity(client, name, *(f"{number}{'x' * 50_000}" for number in range(3)))
    read = []
    observations = storage.observations

    def counted(*arguments: Any) -> Iterator[str]:
        for content in observations(*arguments):
            read.append(len(content))
            yield content

    monkeypatch.setattr(storage, "observations", counted)
    page = await call(client, "open_nodes", names=names)
    assert len(page["entities"]) == 1
    assert "39 more would be too long" in page["notice"]
    assert sum(read) < 3 * MAX_ANSWER_BYTES
    read.clear()
    await call(client, "open_nodes", names=["n0"], skip_observations=2)
    assert sum(read) < MAX_ANSWER_BYTES


async def test_only_changed_entities_are_marked_as_changed(client: Client, clock: Clock) -> None:
    for name in ("Ann", "Bob"):
        await entity(client, name, "likes tea" if name == "Ann" else "likes milk")
    clock.now += timedelta(hours=1)
    deletions = [{"entity_name": name, "observations": ["likes tea"]} for name in ("Ann", "Bob")]
    await call(client, "delete_observations", deletions=deletions)
    updated = {one["name"]: one["updated_at"] for one in (await call(client, "read_graph"))["entities"]}
    assert updated == {"Ann": "2030-01-01T13:00:00Z", "Bob": "2030-01-01T12:00:00Z"}


async def test_the_answer_to_a_large_write_is_bounded(client: Client) -> None:
    new = [{"name": f"n{number}", "entity_type": "t", "observations": ["x" * 200]} for number in range(1000)]
    made = await call(client, "create_entities", entities=new)
    assert 0 < len(made["entities"]) < 1000
    assert "All is done" in made["notice"]
    again = await call(client, "create_entities", entities=new)
    assert (again["entities"], again["skipped"]) == ([], [one["name"] for one in new])


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("create_entities", {"entities": []}, "entities"),
        ("create_entities", {"entities": [{"name": "x"}]}, "entities.0.entity_type"),
        ("create_entities", {"entities": [{"name": "", "entity_type": "t"}]}, "entities.0.name"),
        ("create_relations", {"relations": [{"from": "a", "relation_type": "t"}]}, "relations.0.to"),
        ("search_nodes", {"query": ""}, "query"),
        ("search_nodes", {"query": "x", "limit": 0}, "limit"),
        ("open_nodes", {"names": 5}, "names"),
        ("read_graph", {"offset": -1}, "offset"),
        ("add_observations", {"observations": [{"entity_name": "x", "contents": ["y"], "z": 1}]}, "observations.0.z"),
    ],
)
async def test_bad_arguments_are_refused_naming_the_field(
    client: Client, tool: str, arguments: dict[str, object], field: str
) -> None:
    refused = await refusal(client, tool, **arguments)
    assert (refused["error"], refused["data"]["field"]) == ("invalid", field)
