"""A key that may write, delete and link, but not read, learns from no answer what was there before."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from memory_mcp.caller import Scope
from memory_mcp.families.registry import FAMILIES
from memory_mcp.server import schemas
from tests.processes import run
from tests.wire import Http, http_server

SECRET = "xyzzy"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("writers"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def writer(server: Http) -> Http:
    scopes = "write_memory,delete_memory,manage_links"
    arguments = ["keys", "create", "--name", "w", "--scopes", scopes, "--data-dir", server.data_dir, "--json"]
    done = run(*arguments, check=True)
    return replace(server, key=json.loads(done.stdout)["key"])


def raw(who: Http, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = who.modern("tools/call", {"name": tool, "arguments": arguments})
    result: dict[str, Any] = answer["result"]
    assert not result.get("isError"), answer
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result


def secret_note(server: Http) -> str:
    kept = server.modern_call(
        "memory_create",
        content=f"{SECRET} content",
        title=f"{SECRET} title",
        folder=SECRET,
        tags=[SECRET],
        metadata={SECRET: SECRET},
    )
    return str(kept["id"])


def test_an_update_without_read_scope_shows_only_the_sent_fields(server: Http, writer: Http) -> None:
    note = secret_note(server)
    for sent in ({"importance": 0.9}, {"add_tags": ["new"]}, {"metadata_patch": {"a": 1}}, {"title": "mine"}):
        answer = raw(writer, "memory_update", id=note, **sent)
        assert SECRET not in json.dumps(answer)
        assert {"id", "created_at", "updated_at"} <= set(answer["structuredContent"])
    assert raw(writer, "memory_update", id=note, title="again")["structuredContent"]["title"] == "again"
    assert raw(server, "memory_update", id=note, importance=0.1)["structuredContent"]["content"] == f"{SECRET} content"


def store_secrets(server: Http) -> tuple[str, str]:
    """In every family. Returns the ids of two notes."""
    note, other = secret_note(server), secret_note(server)
    server.modern_call("commit_memory", scope="vault", key="k", content=SECRET, tags=[SECRET])
    server.modern_call("add_memory", store="s", path="a/b", content=SECRET, tags=[SECRET])
    server.modern_call("add_memory", store="s", path=f"{SECRET}/c", content="c", expires_at="2001-01-01T00:00:00Z")
    server.modern_call("create_project", name="p", description=SECRET)
    entity = {"name": "e", "entity_type": SECRET, "observations": [SECRET]}
    server.modern_call("create_entities", project="p", entities=[entity, {**entity, "name": "f"}])
    return note, other


def test_no_tool_without_read_scope_shows_stored_content(server: Http, writer: Http) -> None:
    """Each tool that does not need the right to read, on data of another user."""
    note, other = store_secrets(server)
    mine = {"name": "e", "entity_type": "t", "observations": ["mine"]}
    relation = {"from": "e", "to": "f", "relation_type": "r"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("commit_memory", {"scope": "vault", "key": "k", "content": "mine"}),
        ("prune_memory", {"scope": "vault", "key": "k"}),
        ("set_session_id", {"session_id": "mine"}),
        ("memory_create", {"content": f"{SECRET[:-1]}"}),
        ("memory_update", {"id": note, "importance": 0.9}),
        ("memory_link", {"source_id": note, "target_id": other, "bidirectional": True}),
        ("memory_unlink", {"source_id": note, "target_id": other}),
        ("memory_delete", {"id": note}),
        ("update_memory", {"store": "s", "path": "a/b", "tags": ["mine"]}),
        ("add_memory", {"store": "s", "path": "a/d", "content": "mine"}),
        ("move_memory", {"store": "s", "from_path": "a/d", "to_path": "a/e"}),
        ("reindex_store", {"store": "s"}),
        ("prune_memories", {"store": "s"}),
        ("remove_memory", {"store": "s", "path": "a/b"}),
        ("create_project", {"name": "mine"}),
        ("create_entities", {"project": "p", "entities": [mine]}),
        ("add_observations", {"project": "p", "observations": [{"entity_name": "e", "contents": ["mine"]}]}),
        ("create_relations", {"project": "p", "relations": [relation]}),
        ("delete_relations", {"project": "p", "relations": [relation]}),
        ("delete_observations", {"project": "p", "deletions": [{"entity_name": "e", "observations": ["mine"]}]}),
        ("delete_entities", {"project": "p", "names": ["f"]}),
        ("archive_project", {"name": "p"}),
        ("restore_project", {"name": "p"}),
        ("delete_project", {"name": "p"}),
    ]
    offered = {tool["name"]: tool for tool in writer.modern("tools/list")["result"]["tools"]}
    for tool, arguments in calls:
        answer = raw(writer, tool, **arguments)
        assert SECRET not in json.dumps(answer), tool
        jsonschema_rs.validate(offered[tool]["outputSchema"], answer["structuredContent"])
    # Answers of counts and names given; a preview shows a file that the caller has uploaded
    elsewhere = {"portal_write", "portal_delete", "portal_import", "portal_upload", "portal_preview"}
    writing = {tool.name for family in FAMILIES.values() for tool in family.tools.values() if tool.needs != Scope.READ}
    assert writing - elsewhere == {tool for tool, _ in calls}


def test_with_read_scope_the_answer_is_complete(server: Http) -> None:
    note = raw(server, "memory_update", id=secret_note(server), importance=0.2)["structuredContent"]
    declared = schemas.output_schema(FAMILIES["notes"].tools["memory_update"])["required"]
    assert set(declared) <= set(note)
    assert note["content"] == f"{SECRET} content"
