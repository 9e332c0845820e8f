"""Stores of two servers on one PostgreSQL, in one folder that both share."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.app.access import open_access
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Invalid
from memory_mcp.families.stores.model import FileChange, Metadata
from memory_mcp.families.write_review import ReviewQuery
from memory_mcp.services.write_journal import WriteQuery
from tests.families.stores.calls import at_once, check_indexes, files, write
from tests.wire import Http, http_server

FAMILIES = "stores,recall,notes"
EACH = 24  # memories of each client


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def servers(tmp_path: Path, shared: Path, postgres_url: str) -> Iterator[list[Http]]:
    flags = ("--database-url", postgres_url, "--shared-folder", str(shared), "--families", FAMILIES)
    with ExitStack() as stack:
        running = [
            stack.enter_context(http_server(tmp_path / name, *flags, "--embedder", "none")) for name in ("one", "two")
        ]
        with open_access(chosen(tmp_path / "one", postgres_url, shared)) as access:
            key = access.keys.create(name="tests").raw
        yield [replace(server, key=key) for server in running]


def chosen(data_dir: Path, url: str, shared: Path | None) -> settings.Settings:
    options = {"data_dir": data_dir, "database_url": url, "shared_folder": shared, "families": FAMILIES}
    return settings.load({name: value for name, value in options.items() if value}, environ={}).settings


def code_of(server: Http, tool: str, **arguments: Any) -> str | None:
    """The code of a call's error; None if it succeeded."""
    answer = server.modern("tools/call", {"name": tool, "arguments": arguments})
    if "error" in answer:
        return str(answer["error"]["data"]["error"])
    return "tool error" if answer["result"].get("isError") else None


def listed(server: Http, store: str) -> set[str]:
    assert server.modern_call("reindex_store", store=store)
    return {
        memory["path"]
        for category in ("c0", "c1", "c2")
        for memory in server.modern_call("list_memories", store=store, category=category)["memories"]
    }


def test_two_servers_write_edit_move_and_delete_in_one_store(servers: list[Http], shared: Path) -> None:
    kept: list[set[str]] = []
    same: list[str | None] = []

    def client(number: int) -> None:
        server, left = servers[number % 2], set[str]()
        for count in range(EACH):
            path = f"c{count % 3}/by-{number}-{count}"
            server.modern_call("add_memory", store="team", path=path, content=f"memory {path}")
            server.modern_call("update_memory", store="team", path=path, tags=[f"t{count}"])
            same.append(code_of(server, "add_memory", store="team", path=f"c0/same-{count}", content=f"of {number}"))
            if count % 4 == 0:
                server.modern_call("move_memory", store="team", from_path=path, to_path=f"{path}-moved")
                path = f"{path}-moved"
            if count % 6 == 5:
                server.modern_call("remove_memory", store="team", path=path)
            else:
                left.add(path)
        kept.append(left)

    at_once(*(lambda number=number: client(number) for number in range(4)))
    wanted = set.union(*kept, {f"c0/same-{count}" for count in range(EACH)})
    assert (same.count(None), len(same)) == (EACH, 4 * EACH)
    assert set(same) == {None, "conflict"}
    store = shared / "stores" / "team"
    assert files(store) == wanted
    check_indexes(store)
    assert listed(servers[0], "team") == listed(servers[1], "team") == wanted


def test_each_server_sees_what_another_one_and_a_person_wrote(
    servers: list[Http], shared: Path, tmp_path: Path
) -> None:
    one, two = servers
    one.modern_call("add_memory", store="team", path="plans/launch", content="The zeppelin launches in May")
    found = two.modern_call("get_memory", store="team", path="plans/launch")
    assert found["content"].strip() == "The zeppelin launches in May"
    two.modern_call("update_memory", store="team", path="plans/launch", content="The zeppelin launches in June")
    write(shared / "stores" / "team", "plans/crew.md", "Ada flies the zeppelin")
    [june, ada] = sorted(
        (hit["snippet"] for hit in one.modern_call("recall_memories", query="zeppelin")["hits"]), reverse=True
    )
    assert ("June" in june, "Ada" in ada) == (True, True)
    vault = tmp_path / "vault"
    vault.mkdir()
    with (shared / "stores.yaml").open("a") as registry:
        registry.write(f"by-hand: {vault}\n")
    assert code_of(two, "add_memory", store="by-hand", path="a", content="x") is None
    assert files(vault) == {"a"}
    assert code_of(one, "get_memory", store="by-hand", path="a") is None


def test_a_users_stores_are_in_their_own_folder_and_leave_with_the_user(
    servers: list[Http], shared: Path, tmp_path: Path, postgres_url: str
) -> None:
    with open_access(chosen(tmp_path / "one", postgres_url, shared)) as access:
        ann = access.users.add("ann")
        key = access.keys.create(name="laptop", user=ann.id).raw
    one, two = (replace(server, key=key) for server in servers)
    one.modern_call("add_memory", store="own", path="diary", content="of Ann")
    assert two.modern_call("get_memory", store="own", path="diary")["content"].strip() == "of Ann"
    assert files(shared / "users" / ann.id / "stores" / "own") == {"diary"}
    with open_access(chosen(tmp_path / "two", postgres_url, shared)) as access:
        access.users.remove("ann")
        access.delete_data(ann.id)
    assert not (shared / "users" / ann.id).exists()


def test_a_write_is_undone_by_another_server(tmp_path: Path, shared: Path, postgres_url: str) -> None:
    caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"stores"}), client="claude")
    with (
        open_app(chosen(tmp_path / "one", postgres_url, shared), serving=False) as one,
        open_app(chosen(tmp_path / "two", postgres_url, shared), serving=False) as two,
    ):
        one.stores.add(caller, "team", "plans/launch", "in May", Metadata())
        one.stores.update(caller, "team", "plans/launch", FileChange(content="in June"))
        report = two.write_review.undo(caller, ReviewQuery(WriteQuery(client="claude"), frozenset({"stores"})))
        assert [one.undo.outcome for one in report.items] == ["delete"]
        assert files(shared / "stores" / "team") == set()
    assert not list(tmp_path.glob("*/store_writes.db*"))


def test_without_a_shared_folder_stores_are_refused(tmp_path: Path, postgres_url: str) -> None:
    with (
        pytest.raises(Invalid, match="--shared-folder, or use --families vault,notes,graph,recall"),
        open_app(chosen(tmp_path, postgres_url, None)),
    ):
        raise AssertionError
