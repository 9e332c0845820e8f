"""Arguments are taken as they are meant; the rest is refused in our words, with what to do."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic_core._pydantic_core import list_all_errors

from memory_mcp.errors import Invalid
from memory_mcp.families.family import Arguments, Tool
from memory_mcp.families.registry import FAMILIES
from memory_mcp.server import schemas
from memory_mcp.server.argument_names import SYNONYMS, canonical_name, known_names
from memory_mcp.server.arguments import parse
from tests.wire import Http, Stdio, http_server

TOOLS = {name: tool for family in FAMILIES.values() for name, tool in family.tools.items()}
NEEDED: dict[str, Any] = {  # what fits the required arguments
    "format": "csv",
    "scope": "vault",
    "portalUri": "mem://no/pe",
    "entities": [{"name": "a", "entity_type": "b"}],
    "relations": [{"from": "a", "to": "b", "relation_type": "c"}],
    "observations": [{"entity_name": "a", "contents": ["b"]}],
    "deletions": [{"entity_name": "a", "observations": ["b"]}],
    "names": ["nope"],
    "data": [{"a": 1}],
    "sql": "SELECT 1",
    "ref": "memory://vault/nope",
}


def needed(tool: Tool) -> dict[str, Any]:
    if tool.name == "portal_upload":
        return {"name": "a", "data": ""}
    fields = {field.alias or name: field for name, field in tool.arguments.model_fields.items()}
    return {name: NEEDED.get(name, "nope") for name, field in fields.items() if field.is_required()}


def taken(tool: str, **given: Any) -> dict[str, Any]:
    """What the tool gets of these arguments."""
    parsed = parse(TOOLS[tool], given)
    return parsed.model_dump(by_alias=True, include=parsed.model_fields_set)


def refused(tool: str, given: dict[str, Any]) -> Invalid:
    with pytest.raises(Invalid) as caught:
        parse(TOOLS[tool], given)
    return caught.value


# What is meant


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_null_is_the_same_as_leaving_an_argument_out(tool: Tool) -> None:
    required = needed(tool)
    nulls = {name: None for name in known_names(tool.arguments) if name not in required}
    assert parse(tool, required | nulls) == parse(tool, required)
    assert parse(tool, required | nulls).model_fields_set == parse(tool, required).model_fields_set


def test_null_is_the_same_in_a_nested_record_and_as_another_name() -> None:
    entity = {"name": "a", "entity_type": "b"}
    plain = taken("create_entities", entities=[entity])
    assert taken("create_entities", entities=[entity | {"observations": None}]) == plain
    assert taken("memory_create", content="a", text=None) == {"content": "a"}
    assert refused("create_entities", {"entities": [entity | {"name": None}]}).data == {"field": "entities.0.name"}


@pytest.mark.parametrize(
    ("tool", "given", "meaning"),
    [
        ("memory_search", {"query": "a", "limit": "5"}, {"query": "a", "limit": 5}),
        ("memory_search", {"query": "a", "limit": " 5.0 "}, {"query": "a", "limit": 5}),
        ("memory_search", {"query": "a", "min_importance": "2e-1"}, {"query": "a", "min_importance": 0.2}),
        ("memory_get", {"id": "a", "include_links": "True"}, {"id": "a", "include_links": True}),
        ("memory_delete", {"id": "a", "soft": "false"}, {"id": "a", "soft": False}),
        ("memory_search", {"query": "a", "search_mode": "Lexical"}, {"query": "a", "search_mode": "lexical"}),
        ("search_memories", {"query": "5", "tags": ["5"]}, {"query": "5", "tags": ["5"]}),
        ("memory_search", {"query": "null"}, {"query": "null"}),
        ("memory_create", {"content": '{"a": 1}'}, {"content": '{"a": 1}'}),
        ("memory_create", {"content": "a", "tags": "b"}, {"content": "a", "tags": ["b"]}),
        ("memory_create", {"content": "a", "tags": '["b", "c"]'}, {"content": "a", "tags": ["b", "c"]}),
        ("memory_create", {"content": "a", "tags": "[b"}, {"content": "a", "tags": ["[b"]}),
        ("memory_create", {"content": "a", "tags": "[1]"}, {"content": "a", "tags": ["[1]"]}),
        ("memory_create", {"content": "a", "metadata": '{"b": null}'}, {"content": "a", "metadata": {"b": None}}),
        ("recall_memories", {"query": "a", "families": "notes"}, {"query": "a", "families": ["notes"]}),
        ("search_memories", {"query": "a", "query_embedding": "[1, 0.5]"}, {"query": "a", "query_embedding": [1, 0.5]}),
        ("search_memories", {"query": "a", "query_embedding": ["1", 0]}, {"query": "a", "query_embedding": [1, 0]}),
        ("open_nodes", {"names": "a", "skip_relations": "1"}, {"names": ["a"], "skip_relations": 1}),
        ("portal_write", {"portalUri": "u", "table": "t", "data": {"a": "1"}}, None),
        ("portal_write", {"portal_uri": "u", "table": "t", "data": '{"a": "1"}'}, None),
        ("portal_write", {"uri": "u", "table_name": "t", "rows": '[{"a": "1"}]'}, None),
        ("portal_write", {"portalUri": "u", "table": "t", "records": ['{"a": "1"}']}, None),
    ],
)
def test_another_form_of_a_value_is_accepted(tool: str, given: dict[str, Any], meaning: dict[str, Any] | None) -> None:
    assert taken(tool, **given) == (meaning or {"portalUri": "u", "table": "t", "data": [{"a": "1"}]})


@pytest.mark.parametrize(
    "entities",
    [
        {"name": "a", "entityType": "b", "observations": "c"},
        [{"entityName": "a", "type": "b", "contents": ["c"]}],
        '[{"name": "a", "entity_type": "b", "observation": "c"}]',
        ['{"name": "a", "entity-type": "b", "observations": ["c"]}'],
    ],
)
def test_one_record_and_names_of_other_servers_are_accepted(entities: Any) -> None:
    wanted = {"entities": [{"name": "a", "entity_type": "b", "observations": ["c"]}]}
    assert taken("create_entities", entities=entities) == wanted


def test_names_of_other_servers_are_accepted() -> None:
    relation = {"source": "a", "target": "b", "relationType": "c"}
    assert taken("create_relations", relations=relation) == {
        "relations": [{"from": "a", "to": "b", "relation_type": "c"}]
    }
    assert taken("delete_entities", entityNames=["a"]) == {"names": ["a"]}
    assert taken("add_observations", observations={"entityName": "a", "contents": "b"}) == {
        "observations": [{"entity_name": "a", "contents": ["b"]}]
    }
    assert taken("memory_create", text="a", name="b") == {"content": "a", "title": "b"}
    assert taken("memory_search", q="a", top_k=3) == {"query": "a", "limit": 3}
    assert taken("memory_link", **{"from": "a", "to": "b"}) == {"source_id": "a", "target_id": "b"}
    assert taken("move_memory", store="s", path="a", new_path="b") == {"store": "s", "from_path": "a", "to_path": "b"}


@pytest.mark.parametrize(
    ("tool", "given", "field"),
    [
        ("memory_create", {"content": "a", "text": "b"}, "content"),
        ("memory_create", {"text": "a", "body": "b"}, "content"),
        ("create_entities", {"entities": {"name": "a", "type": "b", "entityType": "c"}}, "entities.entity_type"),
    ],
)
def test_two_names_with_two_values_are_refused(tool: str, given: dict[str, Any], field: str) -> None:
    error = refused(tool, given)
    assert error.data["field"].replace(".0", "") == field
    assert "two values" in error.message
    assert taken("memory_create", content="a", text="a") == {"content": "a"}


def models() -> Iterator[type[Arguments]]:
    """Of every tool, and of the records in them."""

    def within(annotation: Any) -> Iterator[type[Arguments]]:
        if isinstance(annotation, type) and issubclass(annotation, Arguments):
            yield annotation
            for field in annotation.model_fields.values():
                yield from within(field.annotation)
        for inner in get_args(annotation):
            yield from within(inner)

    for tool in TOOLS.values():
        yield from within(tool.arguments)


def test_another_name_means_one_argument() -> None:
    for model in models():
        known = known_names(model)
        for name in known:
            assert canonical_name(model, name) == name
        for name in SYNONYMS:
            assert canonical_name(model, name) in (name if name in known else None, *known, None)
    assert canonical_name(TOOLS["add_memory"].arguments, "text") == "content"
    assert canonical_name(TOOLS["memory_search"].arguments, "text") == "query"
    assert canonical_name(TOOLS["memory_search"].arguments, "id") is None
    everywhere = {name for model in models() for name in known_names(model)}
    assert set(SYNONYMS) - everywhere <= {"ref", "after", "before"}  # every line is of use


def test_no_other_name_is_in_the_schema() -> None:
    for tool in TOOLS.values():
        assert set(schemas.input_schema(tool).get("properties", {})) == set(known_names(tool.arguments))


# What is refused

PHRASES = re.compile(
    "|".join(
        re.sub(r"\\{\w+\\}", ".+", re.escape(one["message_template_python"]))
        for one in list_all_errors()
        if one["type"] not in ("enum", "literal_error")
    )
    + "|Input should|should have at|Field required|not permitted|pydantic|valid (string|integer|dictionary|list)"
)
"""What pydantic would say."""

WRONG: tuple[Any, ...] = (
    "",
    "x",
    "x" * 2_000_000,
    -1,
    5.5,
    10**15,
    10**400,
    True,
    None,
    [],
    [None],
    [[]],
    {},
    {"a": 1},
    "[",
    "{}",
)


LONG_LISTS = {"embedding", "query_embedding", "data"}  # they may have more than 2,000 items


def wrong_calls(tool: Tool) -> Iterator[dict[str, Any]]:
    """Calls with something wrong in each argument, and in each field of a record."""
    required = needed(tool)
    yield {}
    yield {"quary": 1}
    for name in known_names(tool.arguments):
        yield {field: value for field, value in required.items() if field != name}
        for value in WRONG:
            yield required | {name: value}
        yield required | {name: ["x"] * (200_000 if name in LONG_LISTS else 2_000)}
        if isinstance(required.get(name), list) and isinstance(required[name][0], dict):
            [record] = required[name]
            yield required | {name: [record | {"quary": 1}]}
            for field in record:
                yield required | {name: [{key: value for key, value in record.items() if key != field}]}
                for value in WRONG:
                    yield required | {name: [record | {field: value}]}


def refusal(tool: Tool, given: dict[str, Any]) -> Invalid | None:
    try:
        parse(tool, given)
    except Invalid as error:
        return error
    return None


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_refusal_is_in_our_words(tool: Tool) -> None:
    refusals = [error for given in wrong_calls(tool) if (error := refusal(tool, given))]
    assert refusals
    for error in refusals:
        assert not PHRASES.search(error.message), error.message
        assert str(error.data["field"]).split(".")[-1].strip("'") in error.message
        assert error.message.endswith((".", "?"))
        assert len(error.message) < 700
        assert "this value does not fit" not in error.message, error.__cause__  # the table has a sentence for it


@pytest.mark.parametrize(
    ("tool", "given", "message"),
    [
        ("memory_search", {"quary": "x"}, "`quary` is not an argument of memory_search; did you mean `query`?"),
        ("memory_get", {}, "id: give it, it is required."),
        ("memory_get", {"id": 5}, "id: give a text, not 5."),
        ("memory_get", {"id": "a", "version": "x"}, 'version: give a whole number, not "x".'),
        ("memory_get", {"id": "a", "version": 0}, "version: give 1 or more, not 0."),
        ("memory_search", {"query": "a", "limit": "101"}, "limit: give 100 or less, not 101."),
        ("memory_create", {"content": ""}, "content: give at least 1 character."),
        ("memory_create", {"content": "a", "title": "x" * 301}, "title: give at most 300 characters, not 301."),
        ("memory_delete", {"id": "a", "soft": 1}, "soft: give true or false, not 1."),
        ("memory_create", {"content": "a", "tags": 5}, "tags: give a list, not 5."),
        ("memory_create", {"content": "a", "metadata": "b"}, 'metadata: give an object, not "b".'),
        ("prune_memory", {"scope": "x"}, "scope: give 'session', 'vault' or 'all', not \"x\"."),
        ("create_entities", {"entities": []}, "entities: give at least 1 item."),
        (
            "create_entities",
            {"entities": [{"name": "a", "entity_typ": "b"}]},
            "`entity_typ` is not a field of entities.0 in create_entities; did you mean `entity_type`?",
        ),
        ("create_entities", {"name": "a"}, "`name` is not an argument of create_entities; give it in `entities`."),
        ("memory_stats", {"colour": 1}, "`colour` is not an argument of memory_stats. It takes `namespace`."),
        ("get_current_project", {"x": 1}, "`x` is not an argument of get_current_project. It takes none."),
        (
            "commit_memory",
            {"scope": "mmcp_abcdefghijkl_" + "s" * 43, "key": "a", "content": "b"},
            "scope: give 'session' or 'vault', not \"mmcp_***\".",
        ),
    ],
)
def test_a_refusal_says_what_to_give(tool: str, given: dict[str, Any], message: str) -> None:
    assert refused(tool, given).message == message


def test_a_list_in_a_text_is_bounded_like_any_other() -> None:
    assert refused("memory_create", {"content": "a", "metadata": '{"b": NaN}'}).data == {"field": "metadata.b"}
    assert "surrogate" in refused("memory_create", {"content": "a", "metadata": r'{"b": "\ud800"}'}).message
    assert refused("memory_create", {"content": "\ud800"}).data == {"field": "content"}
    assert "nested" in refused("memory_create", {"content": "a", "metadata": '{"b":' * 200 + "1" + "}" * 200}).message
    assert refused("memory_create", {"content": "a", "metadata": '{"b":' * 10_000}).data == {"field": "metadata"}
    long = json.dumps({"b": "x" * 2**21})
    assert refused("memory_create", {"content": "a", "metadata": long}).code == "too_large"


# Over the wire


@pytest.fixture(scope="module")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    server = Stdio.start(tmp_path_factory.mktemp("stdio"), "--embedder", "none")
    yield server
    server.close()


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("http"), "--embedder", "none") as server:
        yield server


def outcome(server: Stdio | Http, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """Whether a call is done; if so, which fields its answer has, else its message."""
    params = {"name": tool, "arguments": arguments}
    answer = server.ask("tools/call", params) if isinstance(server, Stdio) else server.modern("tools/call", params)
    if "error" in answer:
        return False, str(answer["error"]["message"])
    content = answer["result"]["structuredContent"]
    is_error = bool(answer["result"].get("isError"))
    return not is_error, str(content["message"] if is_error else sorted(content))


@pytest.mark.parametrize("wire", ["stdio", "http"])
def test_over_the_wire_null_is_the_same_as_leaving_out(request: pytest.FixtureRequest, wire: str) -> None:
    server = request.getfixturevalue(wire)
    for name, tool in TOOLS.items():
        required = needed(tool)
        nulls = {field: None for field in known_names(tool.arguments) if field not in required}
        outcomes = []
        for number, given in enumerate((required, required | nulls)):
            spelled = json.dumps(given).replace("nope", f"nope{number}")  # what the first call made is not in the way
            done, message = outcome(server, name, json.loads(spelled))
            outcomes.append((done, message.replace(f"nope{number}", "nope")))
        assert outcomes[0] == outcomes[1], name


@pytest.mark.parametrize("wire", ["stdio", "http"])
def test_over_the_wire_arguments_are_taken_as_they_are_meant(request: pytest.FixtureRequest, wire: str) -> None:
    server = request.getfixturevalue(wire)
    calls = (
        ("memory_create", {"text": "Tea is green", "tags": "tea", "importance": "0.9", "folder": None}),
        ("memory_search", {"q": "tea", "limit": "1", "tags": '["tea"]', "namespace": None}),
        ("commit_memory", {"scope": "vault", "name": "tea", "text": "green", "tags": "a"}),
        ("add_memory", {"store": "home", "path": "garden/tea.md", "text": "green", "tags": "tea"}),
        ("get_memory", {"store": "home", "path": "garden/tea.md", "include_expired": "true"}),
        ("move_memory", {"store": "home", "from": "garden/tea.md", "to": "garden/green tea.md"}),
        ("remove_memory", {"store": "home", "path": "garden/green tea.md"}),
        ("create_project", {"name": "kitchen", "description": None}),
        ("create_entities", {"project": "kitchen", "entities": {"name": "Tea", "entityType": "drink"}}),
        ("create_entities", {"project": "kitchen", "entities": {"name": "Cup", "type": "thing"}}),
        ("add_observations", {"project": "kitchen", "observations": {"entityName": "Tea", "contents": "green"}}),
        ("create_relations", {"project": "kitchen", "relations": {"from": "Tea", "to": "Cup", "relationType": "in"}}),
        ("open_nodes", {"project": "kitchen", "names": "Tea"}),
        ("recall_memories", {"query": "tea", "families": "notes", "limit": "3"}),
    )
    for tool, given in calls:
        done, message = outcome(server, tool, given)
        assert done, (tool, message)


@pytest.mark.parametrize("wire", ["stdio", "http"])
def test_over_the_wire_an_unknown_argument_is_named(request: pytest.FixtureRequest, wire: str) -> None:
    server = request.getfixturevalue(wire)
    for tool in ("memory_search", "search_memories"):  # a tool result, and a JSON-RPC error
        wanted = f"`quary` is not an argument of {tool}; did you mean `query`?"
        assert outcome(server, tool, {"quary": "a"}) == (False, wanted)


def test_a_request_with_missing_parameters_is_refused_in_our_words(stdio: Stdio) -> None:
    error = stdio.ask("tools/call", {})["error"]
    assert error["data"] == {"error": "invalid", "field": "params.name"}
    assert error["message"] == "params.name: give it, it is required."
