"""Recall finds the current state, however it was changed."""

from datetime import timedelta
from pathlib import Path

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.conftest import Clock
from tests.families.notes.calls import call
from tests.families.recall.calls import PORTAL, ask, hits, refs, write_everywhere
from tests.families.stores.calls import register, settle, write
from tests.wire import Stdio

pytestmark = pytest.mark.anyio


async def test_changes_are_found_in_every_family(client: Client) -> None:
    kept = await write_everywhere(client, "the teapot is blue")
    assert set(await refs(client, "blue")) == set(kept.values())
    id_ = kept["notes"].rpartition("/")[2]
    await call(client, "commit_memory", scope="vault", key="one", content="the teapot is green")
    await call(client, "memory_update", id=id_, content="the teapot is green")
    await call(client, "update_memory", store="diary", path="days/one", content="the teapot is green")
    gone = {"entity_name": "one", "observations": ["the teapot is blue"]}
    await call(client, "delete_observations", project="house", deletions=[gone])
    new = {"entity_name": "one", "contents": ["the teapot is grey!"]}
    await call(client, "add_observations", project="house", observations=[new])
    assert await refs(client, "blue") == []
    assert set(await refs(client, "green grey")) == set(kept.values())

    await call(client, "prune_memory", scope="vault", key="one")
    await call(client, "memory_delete", id=id_)
    await call(client, "remove_memory", store="diary", path="days/one")
    await call(client, "delete_entities", project="house", names=["one"])
    assert await refs(client, "teapot") == []


async def test_rows_of_portals_are_followed(client: Client) -> None:
    rows = [{"role": "user", "content": f"a {animal}"} for animal in ("wombat", "zebra")]
    await call(client, "portal_write", portalUri=PORTAL, table="turns", data=rows)
    assert await refs(client, "wombat") == await refs(client, "zebra") == [f"{PORTAL}/turns"]
    await call(client, "portal_delete", portalUri=PORTAL, table="turns", where={"content": "a wombat"})
    assert await refs(client, "wombat") == []
    await call(client, "portal_write", portalUri=PORTAL, table="turns", data=[{"role": "user", "content": "a wombat"}])
    await call(client, "portal_write", portalUri=PORTAL, table="numbers", data=[{"n": 1}])
    assert await refs(client, "wombat") == [f"{PORTAL}/turns"]


async def test_a_portal_that_was_moved_away_and_back_is_found_again(client: Client, tmp_path: Path) -> None:
    await call(client, "portal_write", portalUri=PORTAL, table="turns", data=[{"role": "user", "content": "a wombat"}])
    assert await refs(client, "wombat")
    folder = tmp_path / "portals" / "tests" / "talk"
    folder.rename(tmp_path / "away")
    assert await refs(client, "wombat") == []
    (tmp_path / "away").rename(folder)
    assert await refs(client, "wombat") == [f"{PORTAL}/turns"]


async def test_two_changes_within_a_second_are_both_seen(client: Client) -> None:
    """The clock stands still here, and the vault's times are to the second."""
    for word in ("wombat", "zebra", "wombat", "ocelot"):
        await call(client, "commit_memory", scope="vault", key="k", content=f"a {word}")
        assert await refs(client, word) == ["memory://vault/k"]
    assert await refs(client, "wombat zebra") == []


async def test_moved_memories_are_found_at_their_new_path(client: Client) -> None:
    kept = await write_everywhere(client, "the teapot is blue")
    assert kept["stores"] in await refs(client, "teapot")
    await call(client, "move_memory", store="diary", from_path="days/one", to_path="nights/two")
    found = await refs(client, "teapot")
    assert kept["stores"] not in found
    assert "stores:diary/nights/two" in found


async def test_archived_projects_are_not_found_until_they_are_restored(client: Client) -> None:
    kept = await write_everywhere(client, "the teapot is blue")
    await call(client, "archive_project", name="house")
    assert kept["graph"] not in await refs(client, "teapot")
    await call(client, "restore_project", name="house")
    assert kept["graph"] in await refs(client, "teapot")


async def test_a_recreated_project_has_nothing_of_the_former(client: Client) -> None:
    """Its rows have the same numbers, and its texts the same length."""
    for animal in ("wombat", "ocelot"):
        await call(client, "create_project", name="zoo")
        entity = {"name": "it", "entity_type": "animal", "observations": [animal]}
        await call(client, "create_entities", project="zoo", entities=[entity])
        assert await refs(client, animal) == ["graph:zoo/it"]
        await call(client, "delete_project", name="zoo")
    assert await refs(client, "wombat ocelot") == []


async def test_files_edited_by_hand_are_followed(client: Client, app: App, elsewhere: Path) -> None:
    (folder := elsewhere / "mine").mkdir()
    register(app, folder, "mine")
    file = write(folder, "a.md", "a wombat\n")
    assert await refs(client, "wombat") == ["stores:mine/a"]
    write(folder, "a.md", "a zebra!\n")
    assert await refs(client, "wombat") == []
    assert await refs(client, "zebra") == ["stores:mine/a"]
    settle(file)
    assert await refs(client, "zebra") == ["stores:mine/a"]
    file.rename(folder / "b.md")
    assert await refs(client, "zebra") == ["stores:mine/b"]
    (folder / "b.md").unlink()
    assert await refs(client, "zebra") == []
    assert sorted(path.name for path in folder.rglob("*")) == []


async def test_a_missing_folder_is_not_found_until_it_is_back(client: Client, app: App, tmp_path: Path) -> None:
    (folder := tmp_path / "stores" / "mine").mkdir(parents=True)
    register(app, folder, "mine")
    write(folder, "a.md", "a wombat\n")
    assert await refs(client, "wombat")
    folder.rename(tmp_path / "away")
    assert await refs(client, "wombat") == []
    (tmp_path / "away").rename(folder)
    assert await refs(client, "wombat") == ["stores:mine/a"]


async def test_expired_memories_are_not_found(client: Client, clock: Clock) -> None:
    soon = "2030-01-01T13:00:00Z"
    await call(client, "add_memory", store="s", path="a", content="a wombat", expires_at=soon)
    assert await refs(client, "wombat") == ["stores:s/a"]
    clock.now += timedelta(hours=2)
    assert await refs(client, "wombat") == []
    await call(client, "update_memory", store="s", path="a", clear_expiry=True)
    assert await refs(client, "wombat") == ["stores:s/a"]


async def test_writes_of_another_process_are_found(client: Client, tmp_path: Path) -> None:
    await write_everywhere(client, "the teapot is blue")
    other = Stdio.start(tmp_path, "--embedder", "none")
    assert len(ask(other, "teapot")) == 4
    other.call("commit_memory", scope="vault", key="two", content="the teapot is red")
    assert await refs(client, "red") == ["memory://vault/two"]
    await call(client, "prune_memory", scope="vault", key="two")
    assert ask(other, "red") == []
    assert other.close() == 0


async def test_a_search_without_changes_writes_nothing(client: Client, app: App, tmp_path: Path) -> None:
    """So that no search waits for a writer."""
    await write_everywhere(client, "the teapot is blue")
    assert len(await hits(client, "teapot")) == 4
    before = times(tmp_path)
    assert len(await hits(client, "blue")) == 4
    assert times(tmp_path) == before


def times(data_dir: Path) -> dict[str, int]:
    """When the files of the copies were last written to."""
    return {path.name: path.stat().st_mtime_ns for path in data_dir.glob("recall.db*")}
