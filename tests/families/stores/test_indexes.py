"""index.yaml and the cache: made from the files, never in the way of what the files say now."""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from tests.conftest import Clock
from tests.families.stores.calls import (
    LONG_AGO,
    MARK,
    NOON,
    add,
    call,
    entry,
    index,
    indexes,
    listed,
    move,
    recent,
    register,
    settle,
    subcategories,
    summaries,
    tree,
    update,
    write,
)
from tests.wire import Stdio

pytestmark = pytest.mark.anyio


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """Where the store lies that agents make."""
    return tmp_path / "stores" / "s"


async def reindex(client: Client) -> dict[str, Any]:
    return await call(client, "reindex_store", store="s")


# index.yaml


async def test_an_index_says_what_its_category_holds(client: Client, ours: Path, clock: Clock) -> None:
    await add(client, "top", "# Top of it\n\nand more")
    await add(client, "a/one", "one")
    await add(client, "a/b/two", 'two: "quoted" \\ ü 🌱 \u2028 and\u0085 #hash')
    clock.now += timedelta(hours=1)
    await update(client, "a/one", content="changed")
    assert (ours / "index.yaml").read_text().startswith(MARK + "\n")
    assert index(ours) == {"memories": [entry("top", "Top of it", token_estimate=6)], "subcategories": ["a"]}
    assert index(ours / "a") == {
        "memories": [entry("a/one", "changed", "2030-01-01T13:00:00Z")],
        "subcategories": ["a/b"],
    }
    assert index(ours / "a" / "b")["subcategories"] == []
    [two] = index(ours / "a" / "b")["memories"]
    assert (two["path"], two["updated_at"]) == ("a/b/two", NOON)
    assert two["summary"] == (await summaries(client, "a/b"))["a/b/two"]


async def test_every_change_reaches_the_indexes(client: Client, ours: Path) -> None:
    await add(client, "a/one")
    await add(client, "a/two", expires_at=LONG_AGO)
    await move(client, "a/one", "b/c/one")
    assert [one["path"] for one in index(ours / "a")["memories"]] == ["a/two"]
    assert index(ours)["subcategories"] == ["a", "b"]
    assert index(ours / "b") == {"memories": [], "subcategories": ["b/c"]}
    assert [one["path"] for one in index(ours / "b" / "c")["memories"]] == ["b/c/one"]
    await call(client, "prune_memories", store="s")
    assert index(ours / "a") == {"memories": [], "subcategories": []}
    await call(client, "remove_memory", store="s", path="b/c/one")
    assert index(ours / "b" / "c") == {"memories": [], "subcategories": []}


SPOILT = {
    "stale": f"{MARK}\nmemories:\n  - path: gone\nsubcategories: []\n",
    "broken": f"{MARK}\nmemories: [\n",
    "merge": f"{MARK}\n<<<<<<< HEAD\nmemories: []\n=======\nmemories:\n  - path: x\n>>>>>>> b\nsubcategories: []\n",
    "empty": "",
    "unmarked": "memories: []\nsubcategories: []\n",
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT.keys())
async def test_an_index_of_ours_that_is_wrong_does_no_harm_and_is_repaired(
    client: Client, ours: Path, spoilt: str
) -> None:
    await add(client, "a/one", "one")
    right = (ours / "a" / "index.yaml").read_text()
    (ours / "a" / "index.yaml").write_text(spoilt)
    assert await recent(client) == {"a/one": "one"}
    assert await listed(client, "a") == ["a/one"]
    assert (ours / "a" / "index.yaml").read_text() == right
    (ours / "a" / "index.yaml").write_text(spoilt)
    await reindex(client)
    assert (ours / "a" / "index.yaml").read_text() == right
    assert sorted(path.name for path in (ours / "a").iterdir()) == ["index.yaml", "one.md"]


async def test_a_missing_index_is_made_by_looking(client: Client, ours: Path) -> None:
    await add(client, "a/one")
    right = (ours / "a" / "index.yaml").read_text()
    (ours / "a" / "index.yaml").unlink()
    await listed(client, "a")
    assert (ours / "a" / "index.yaml").read_text() == right


FOREIGN = {
    "mapping": "site: mine\npages: [a, b]\n",
    "list": "- a\n- b\n",
    "text": "just words\n",
    "theirs too": "memories: 1\nother: 2\n",
    "half like ours": "memories: [of summer, of winter]\n",
    "comments": "# my own words\n# a: b\n",
    "nothing": "{}\n",
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
async def test_an_index_about_something_else_is_unchanged(client: Client, ours: Path, foreign: str) -> None:
    await add(client, "a/one")
    (ours / "a" / "index.yaml").write_text(foreign)
    await listed(client, "a")
    await add(client, "a/two")
    await update(client, "a/two", content="new")
    await reindex(client)
    assert await listed(client, "a") == ["a/one", "a/two"]
    assert (ours / "a" / "index.yaml").read_text() == foreign


async def test_an_index_that_is_no_yaml_is_set_aside(client: Client, ours: Path) -> None:
    garbage = b"\x00\xff: [ not yaml"
    await add(client, "a/one")
    (ours / "a" / "index.yaml").write_bytes(garbage)
    await reindex(client)
    [kept] = (ours / "a").glob("index.yaml.kept-*")
    assert kept.read_bytes() == garbage
    assert [one["path"] for one in index(ours / "a")["memories"]] == ["a/one"]
    assert await listed(client, "a") == ["a/one"]


async def test_reindexing_writes_all_indexes_and_reports_progress(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    for count in range(2500):
        write(elsewhere, f"c{count % 5}/d/m{count}.md", f"memory {count}")
    reports: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert message
        reports.append((progress, total))

    result = await client.call_tool("reindex_store", {"store": "s"}, progress_callback=hear)
    assert result.structured_content == {"store": "s", "path": str(elsewhere), "memories": 2500, "categories": 10}
    assert len(reports) > 1
    assert reports == sorted(reports)
    assert reports[-1] == (2500, 2500)
    assert len(indexes(elsewhere)) == 11
    assert len(index(elsewhere / "c3" / "d")["memories"]) == 500
    assert index(elsewhere)["subcategories"] == [f"c{count}" for count in range(5)]
    before = tree(elsewhere)
    await reindex(client)
    assert tree(elsewhere) == before


async def test_reading_writes_no_index_in_a_registered_folder(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    write(elsewhere, "a/b/one.md")
    write(elsewhere, "garbage/index.yaml", "[")
    before = tree(elsewhere)
    for category in (None, "a", "a/b", "garbage"):
        await listed(client, category)
        await recent(client, **({"category": category} if category else {}))
    assert tree(elsewhere) == before
    await add(client, "a/two")
    assert indexes(elsewhere) == {".", "a", "garbage"}
    write(elsewhere, "a/three.md")
    await listed(client, "a")
    assert len(index(elsewhere / "a")["memories"]) == 2  # ours by now, and so it is repaired


async def test_reindexing_twice_changes_nothing(client: Client, ours: Path) -> None:
    for path in ("a", "b/c", "b/d"):
        await add(client, path)
    before = tree(ours)
    assert await reindex(client) == {"store": "s", "path": "stores/s", "memories": 3, "categories": 1}
    assert tree(ours) == before


async def test_every_index_is_yaml_that_others_read(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    for count, text in enumerate(
        ("\x00\x07", "a: b # c", "'", '"', "\\", "- x", "\ufeff", "\ud7ff\ue000\uffff", "é\t")
    ):
        write(elsewhere, f"sub {count}: #/m{count}.md", text)
    await reindex(client)
    for category in indexes(elsewhere) - {"."}:
        found = index(elsewhere / category)
        assert set(found) == {"memories", "subcategories"}
        listed = {one["path"]: one["summary"] for one in found["memories"]}
        assert listed == await summaries(client, category)
    assert len(index(elsewhere)["subcategories"]) == 9


# What a person does to the files


@pytest.mark.parametrize("is_settled", [True, False])
async def test_an_edit_saved_in_place_is_seen_at_once(client: Client, ours: Path, is_settled: bool) -> None:
    """The same file, the same size; and many times within a tick of the clock."""
    await add(client, "c/first")
    file = write(ours, "c/note.md", "version 000")
    for count in range(1, 30):
        if is_settled:
            settle(file)
        assert (await summaries(client, "c"))["c/note"] == f"version {count - 1:03}"
        assert (await recent(client))["c/note"] == f"version {count - 1:03}"
        before = file.stat()
        file.write_text(f"version {count:03}")
        assert (file.stat().st_ino, file.stat().st_size) == (before.st_ino, before.st_size)
        assert (await recent(client))["c/note"] == f"version {count:03}"
        assert (await summaries(client, "c"))["c/note"] == f"version {count:03}"


async def test_a_time_and_expiry_written_by_hand_count_at_once(client: Client, ours: Path) -> None:
    await add(client, "a")
    await add(client, "b")
    settle(write(ours, "a.md", "---\nupdated_at: 2031-01-01\n---\nnewest"))
    assert list(await recent(client)) == ["a", "b"]
    write(ours, "a.md", "---\nupdated_at: 2001-01-01\n---\nnewest")
    assert list(await recent(client)) == ["b", "a"]
    write(ours, "a.md", "---\nexpires_at: 2001-01-01\n---\nnewest")
    assert list(await recent(client)) == ["b"]
    assert await listed(client) == ["b"]


async def test_a_file_that_kept_its_time_is_found_by_reindexing(client: Client, ours: Path) -> None:
    file = write(ours, "note.md", "one")
    await add(client, "other")
    settle(file)
    assert (await summaries(client))["note"] == "one"
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    await reindex(client)
    assert (await summaries(client))["note"] == "two"
    assert index(ours)["memories"][0]["summary"] == "two"


async def test_files_and_folders_that_come_go_and_move_are_seen_at_once(
    client: Client, app: App, elsewhere: Path
) -> None:
    register(app, elsewhere)
    for path in ("a/one.md", "a/b/two.md", "three.md"):
        settle(write(elsewhere, path, path))
    assert set(await recent(client)) == {"a/one", "a/b/two", "three"}
    (elsewhere / "a" / "one.md").rename(elsewhere / "a" / "uno.md")
    assert set(await recent(client)) == {"a/uno", "a/b/two", "three"}
    assert await listed(client, "a") == ["a/uno"]
    (elsewhere / "a").rename(elsewhere / "z")
    assert set(await recent(client)) == {"z/uno", "z/b/two", "three"}
    assert (await subcategories(client), await subcategories(client, "z")) == (["z"], ["z/b"])
    (elsewhere / "z" / "b").rename(elsewhere / "b")
    assert set(await recent(client, category="z")) == {"z/uno"}
    shutil.rmtree(elsewhere / "z")
    (elsewhere / "three.md").unlink()
    assert set(await recent(client)) == {"b/two"}
    assert (await listed(client), await subcategories(client)) == ([], ["b"])
    answer = await reindex(client)
    assert (answer["memories"], answer["categories"]) == (1, 1)
    (elsewhere / "b" / "two.md").replace(elsewhere / "b" / "three.md")
    settle(elsewhere / "b" / "three.md")
    assert await recent(client, category="b") == {"b/three": "a/b/two.md"}


async def test_two_files_that_swap_names_are_distinguished(client: Client, ours: Path) -> None:
    await add(client, "x")
    one, two = write(ours, "one.md", "111"), write(ours, "two.md", "222")
    settle(one, two)
    assert (await summaries(client))["one"] == "111"
    one.rename(ours / "swap")
    two.rename(one)
    (ours / "swap").rename(two)
    found = await summaries(client)
    assert (found["one"], found["two"]) == ("222", "111")


# The cache


async def test_the_cache_can_be_deleted_at_any_time(client: Client, ours: Path, tmp_path: Path) -> None:
    for path in ("a/one", "a/two", "three"):
        await add(client, path)
    for left in (["stores.db"], ["stores.db", "stores.db-wal", "stores.db-shm"]):
        for name in left:
            (tmp_path / name).unlink(missing_ok=True)
        assert set(await recent(client)) == {"a/one", "a/two", "three"}
        for name in left:
            (tmp_path / name).unlink(missing_ok=True)
        assert await listed(client, "a") == ["a/one", "a/two"]
        for name in left:
            (tmp_path / name).unlink(missing_ok=True)
        await update(client, "three", content="changed")
        for name in left:
            (tmp_path / name).unlink(missing_ok=True)
        assert (await reindex(client))["memories"] == 3
    assert not [path for path in tree(ours) if ".db" in path]


async def test_a_long_list_goes_on_where_it_was_cut(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    for count in range(1500):
        write(elsewhere, f"memory-{count:04}.md", "words " * 20)
    seen: list[str] = []
    while True:
        answer = await call(client, "list_memories", store="s", offset=len(seen))
        seen += [memory["path"] for memory in answer["memories"]]
        if "notice" not in answer:
            break
        assert f"offset {len(seen)}" in answer["notice"]
    assert seen == [f"memory-{count:04}" for count in range(1500)]


@pytest.mark.parametrize("damage", [b"garbage" * 1000, b""])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, damage: bytes) -> None:
    server = Stdio.start(tmp_path)
    server.call("add_memory", store="s", path="a/one", content="1")
    server.close()
    for left in tmp_path.glob("stores.db*"):
        left.unlink()
    (tmp_path / "stores.db").write_bytes(damage)

    server = Stdio.start(tmp_path)
    assert [one["path"] for one in server.call("list_memories", store="s", category="a")["memories"]] == ["a/one"]
    assert server.call("move_memory", store="s", from_path="a/one", to_path="a/two")["moved"]
    assert "a/two" in (tmp_path / "stores" / "s" / "a" / "index.yaml").read_text(encoding="utf-8")
    server.close()


async def test_a_store_is_listed_while_its_cache_cannot_be_written(client: Client, ours: Path, tmp_path: Path) -> None:
    """As on a full or read-only disk."""
    await add(client, "a/one")
    for name in ("stores.db", "stores.db-wal", "stores.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "stores.db" / "in the way").mkdir(parents=True)
    assert await listed(client, "a") == ["a/one"]
    assert set(await recent(client)) == {"a/one"}
    await add(client, "a/two")
    assert await listed(client, "a") == ["a/one", "a/two"]


def test_a_caller_who_may_only_read_repairs_nothing(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path)
    server.call("add_memory", store="s", path="one", content="1")
    server.close()
    index = tmp_path / "stores" / "s" / "index.yaml"
    broken = index.read_text(encoding="utf-8") + "junk: ["
    index.write_text(broken, encoding="utf-8")

    reader = Stdio.start(tmp_path, "--scopes", "read_memory")
    assert reader.call("list_memories", store="s")["count"] == 1
    assert index.read_text(encoding="utf-8") == broken
    reader.close()
