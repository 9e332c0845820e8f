from pathlib import Path

import apsw
import pytest
from mcp import Client

from memory_mcp.server.protocol import McpServer
from tests.conftest import connected
from tests.families.notes.calls import call, refusal
from tests.wire import Stdio, http_server

pytestmark = pytest.mark.anyio


def files(folder: Path) -> set[str]:
    """Databases of projects, wherever they lie, by the folder they lie in."""
    return {path.parent.name for path in folder.rglob("*.db*") if path.parent.name in ("projects", "archive")}


def traces(folder: Path) -> list[str]:
    """Whatever there is of projects besides the registry."""
    return [path.name for kind in ("projects", "archive", "locks") for path in (folder / kind).glob("*")]


async def test_without_a_project_the_spec_says_what_to_do(client: Client) -> None:
    refused = await refusal(client, "read_graph")
    assert refused["error"] == "no_active_project"
    assert refused["message"].startswith("No active project. Use switch_project to select one.")
    assert (await call(client, "get_current_project"))["project"] is None


async def test_a_new_project_is_the_active_one(client: Client, tmp_path: Path, database_url: str | None) -> None:
    project = await call(client, "create_project", name="house", description="Where we live")
    assert set(project) == {"id", "name", "description", "status", "created_at", "updated_at"}
    assert (await call(client, "get_current_project"))["project"] == project
    assert (await call(client, "list_projects")) == {"projects": [project]}
    if database_url is None:
        assert (tmp_path / "projects" / f"{project['id']}.db").exists()
        [(path, status)] = apsw.Connection(str(tmp_path / "_meta.db")).execute("SELECT db_path, status FROM projects")
        assert (path, status) == (f"projects/{project['id']}.db", "active")


@pytest.mark.parametrize("name", ["Bad", "a b", "", "-a", "a/b", "../x", "ü", "a" * 65])
async def test_names_that_are_no_slugs_are_refused(client: Client, name: str) -> None:
    assert (await refusal(client, "create_project", name=name))["error"] == "invalid"


async def test_a_taken_name_is_refused_and_says_what_to_do(client: Client) -> None:
    await call(client, "create_project", name="house")
    refused = await refusal(client, "create_project", name="house")
    assert refused["error"] == "conflict"
    assert "switch_project" in refused["message"]


async def test_projects_are_isolated_and_a_call_may_name_its_own(client: Client) -> None:
    for name in ("one", "two"):
        await call(client, "create_project", name=name)
        await call(client, "create_entities", entities=[{"name": f"in {name}", "entity_type": "t"}])

    assert [one["name"] for one in (await call(client, "read_graph"))["entities"]] == ["in two"]
    assert [one["name"] for one in (await call(client, "read_graph", project="one"))["entities"]] == ["in one"]
    assert (await call(client, "get_current_project"))["project"]["name"] == "two"
    assert (await call(client, "switch_project", name="one"))["project"]["name"] == "one"
    assert [one["name"] for one in (await call(client, "read_graph"))["entities"]] == ["in one"]
    assert (await refusal(client, "read_graph", project="three"))["error"] == "not_found"
    assert (await refusal(client, "switch_project", name="three"))["error"] == "not_found"


async def test_archive_and_restore_move_the_file_and_keep_all_of_it(
    client: Client, tmp_path: Path, database_url: str | None
) -> None:
    project = await call(client, "create_project", name="house")
    await call(client, "create_entities", entities=[{"name": "x", "entity_type": "t"}])

    archived = await call(client, "archive_project", name="house")
    assert archived["project"]["status"] == "archived"
    assert files(tmp_path) == (set() if database_url else {"archive"})
    assert (await call(client, "get_current_project"))["project"] is None
    assert (await refusal(client, "switch_project", name="house"))["error"] == "conflict"
    refused = await refusal(client, "archive_project", name="house")
    assert (refused["error"], "restore_project" in refused["message"]) == ("conflict", True)
    assert (await call(client, "list_projects"))["projects"] == []
    assert len((await call(client, "list_projects", status="archived"))["projects"]) == 1

    restored = await call(client, "restore_project", name="house")
    assert restored["status"] == "active"
    assert restored["id"] == project["id"]
    assert files(tmp_path) == (set() if database_url else {"projects"})
    assert len((await call(client, "read_graph", project="house"))["entities"]) == 1
    refused = await refusal(client, "restore_project", name="house")
    assert (refused["error"], "switch_project" in refused["message"]) == ("conflict", True)


@pytest.mark.parametrize("archived", [False, True])
async def test_a_deleted_project_leaves_nothing_behind(client: Client, tmp_path: Path, archived: bool) -> None:
    await call(client, "create_project", name="house")
    if archived:
        await call(client, "archive_project", name="house")
    assert (await call(client, "delete_project", name="house"))["project"] is None
    assert traces(tmp_path) == []
    assert (await call(client, "get_current_project"))["project"] is None
    assert (await call(client, "list_projects", status="all"))["projects"] == []
    assert (await refusal(client, "delete_project", name="house"))["error"] == "not_found"
    await call(client, "create_project", name="house")  # the name is free again


async def test_the_active_project_belongs_to_the_session(mcp_server: McpServer) -> None:
    async with connected(mcp_server) as mine, connected(mcp_server) as yours:
        await call(mine, "create_project", name="mine")
        assert (await call(yours, "get_current_project"))["project"] is None
        await call(yours, "create_project", name="yours")
        assert (await call(mine, "get_current_project"))["project"]["name"] == "mine"


def test_over_http_the_active_project_follows_the_session_in_both_eras(tmp_path: Path) -> None:
    with http_server(tmp_path, "--families", "graph") as server:
        server.modern_call("create_project", name="modern")
        assert server.modern_call("get_current_project")["project"]["name"] == "modern"
        named = server.modern_call("get_current_project", {"memory-mcp/sessionId": "elsewhere"})
        assert named["project"] is None

        one, two = server.handshake(), server.handshake()
        params = {"name": "switch_project", "arguments": {"name": "modern"}}
        assert "result" in server.legacy(one, "tools/call", params)
        current = {"name": "get_current_project", "arguments": {}}
        assert server.legacy(one, "tools/call", current)["result"]["structuredContent"]["project"]["name"] == "modern"
        assert server.legacy(two, "tools/call", current)["result"]["structuredContent"]["project"] is None


@pytest.mark.parametrize("fate", ["archive_project", "delete_project"])
def test_a_project_another_process_has_open_goes_without_a_ghost(tmp_path: Path, fate: str) -> None:
    one, two = (Stdio.start(tmp_path, "--families", "graph") for _ in range(2))
    one.call("create_project", name="house")
    two.call("switch_project", name="house")
    two.call("create_entities", entities=[{"name": "x", "entity_type": "t"}])

    one.call(fate, name="house")
    for tool, arguments in (
        ("read_graph", {}),
        ("read_graph", {"project": "house"}),
        ("create_entities", {"entities": [{"name": "y", "entity_type": "t"}]}),
    ):
        answer = two.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert answer["isError"]
        assert answer["structuredContent"]["error"] in ("no_active_project", "conflict", "not_found")
    assert files(tmp_path) == ({"archive"} if fate == "archive_project" else set())
    if fate == "archive_project":
        two.call("restore_project", name="house")
        assert [e["name"] for e in one.call("read_graph", project="house")["entities"]] == ["x"]
    for server in (one, two):
        assert server.close() == 0
