"""Names: no path leads out of a store, and new names work everywhere."""

import os
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from mcp import Client

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.errors import AppError, Conflict, Invalid
from memory_mcp.families.stores import paths
from memory_mcp.families.stores.model import FileChange, Metadata
from tests.exhaustive import rounds
from tests.families.stores.calls import (
    CALLER,
    add,
    call,
    content,
    get,
    listed,
    move,
    recent,
    refused,
    register,
    tree,
    update,
    write,
)

pytestmark = pytest.mark.anyio

PIECES = [
    *("a", "b.md", "..", ".", "", "...", ". .", "~", "C:", "c:x", "con", "NUL.txt", "link", "deep", "loop", "A"),
    *("\\", "..\\..", "\0", "%2e%2e", "..%2f", "․․", "／", "é", "e\u0301", "ﬁ", "İ", "🌱", " ", "\n", "-rf", "$HOME"),
    *("x" * 300, "canary", "store", "/etc/passwd", "//", "\u202e", "\ufeff", "index.yaml", ".hidden"),
]
pieces = st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ways = st.lists(pieces, min_size=1, max_size=5).map("/".join)


@contextmanager
def a_store_among_canaries() -> Iterator[tuple[App, Path]]:
    """A store in the middle of a folder that holds other things, with symlinks that lead there."""
    top = Path(tempfile.mkdtemp())
    try:
        store = top / "store"
        for folder in ("store/deep", "canary", "store2"):
            (top / folder).mkdir(parents=True)
        for file in ("canary.md", "canary/canary.md", "store2/a.md", "store.md", "a.md", "b.md"):
            (top / file).write_text("outside\n")
        (store / "a.md").write_text("inside\n")
        (store / "link").symlink_to("../canary")
        (store / "deep" / "link").symlink_to(top)
        (store / "link.md").symlink_to(top / "canary.md")
        (store / "loop").symlink_to("loop")
        chosen = settings.load(
            {"data_dir": top / "data", "families": "stores", "embedder": "none", "durability": "normal"}, environ={}
        )
        with open_app(chosen.settings) as app:
            app.stores.register(CALLER, "s", store)
            yield app, top
    finally:
        shutil.rmtree(top)


@pytest.fixture(scope="module")
def among() -> Iterator[tuple[App, Path]]:
    with a_store_among_canaries() as made:
        yield made


def outside(top: Path) -> dict[str, str]:
    return {path: what for path, what in tree(top).items() if not path.startswith(("store/", "data"))}


@hypothesis_settings(max_examples=rounds(40, soak=150))
@given(one=ways, other=ways)
@example("../canary", "../new")
@example("link/canary", "link/new")
@example("deep/link/canary", "deep/link/new")
@example("link", "/etc/passwd")
@example("a", "deep/link/store/../new")
@example("a", "..\\new")
def test_no_path_whatsoever_reads_or_writes_outside(among: tuple[App, Path], one: str, other: str) -> None:
    app, top = among
    stores, before = app.stores, outside(top)
    for attempt in (
        lambda: stores.get(CALLER, "s", one, include_expired=True).content,
        lambda: stores.add(CALLER, "s", one, "inside", Metadata()),
        lambda: stores.update(CALLER, "s", one, FileChange(content="changed")),
        lambda: stores.move(CALLER, "s", one, other),
        lambda: stores.move(CALLER, "s", "a", other),
        lambda: stores.list_category(CALLER, "s", one, 0, include_expired=True),
        lambda: stores.recent(CALLER, "s", one, 5, include_expired=True),
        lambda: stores.remove(CALLER, "s", other),
        lambda: stores.remove(CALLER, "s", one),
    ):
        try:
            answer = str(attempt())
        except AppError as exc:
            answer = exc.message
        assert "outside" not in answer
        assert str(top) not in answer
    assert outside(top) == before


@given(ways)
def test_an_accepted_path_has_parts_that_stay(path: str) -> None:
    try:
        parts = paths.parse(path)
    except Invalid:
        return
    assert "/".join(parts) == path
    assert Path(os.path.normpath(Path("/store", *parts))) == Path("/store", *parts)


@pytest.mark.parametrize(
    "path",
    [
        *("/a", "//a", "..", "../a", "a/..", "a/../b", "./a", "a/./b", ".", "a//b", "a/", "/"),
        *(".hidden", "a/.git/b", ".md", "..a", "...", "a\0b", "\0"),
    ],
)
async def test_a_path_is_relative_without_dots_and_hidden_names(client: Client, path: str) -> None:
    await add(client, "a")
    for tool, more in (
        ("get_memory", {"path": path}),
        ("add_memory", {"path": path, "content": "c"}),
        ("update_memory", {"path": path, "content": "c"}),
        ("remove_memory", {"path": path}),
        ("move_memory", {"from_path": path, "to_path": "b"}),
        ("move_memory", {"from_path": "a", "to_path": path}),
    ):
        await refused(client, tool, "invalid", **more)
    if path not in ("a/", "/"):
        await refused(client, "list_memories", "invalid", category=path)
        await refused(client, "cortex_get_recent_memories", "invalid", category=path)


@pytest.mark.parametrize(
    "name",
    [
        *(f"a{sign}b" for sign in '<>:"|?*\\\x01\x1f\x7f'),
        *("con", "CON", "nul.txt", "Com1", "lpt9.a.b", "aux ", "COM¹", "prn"),
        *("dot.", "space ", " space", "x" * 121, "é" * 101, "🌱" * 51, "C:a"),
    ],
)
async def test_new_names_work_on_every_system(client: Client, name: str) -> None:
    await add(client, "a")
    for path in (name, f"c/{name}", f"{name}/c"):
        await refused(client, "add_memory", "invalid", path=path, content="c")
        await refused(client, "move_memory", "invalid", from_path="a", to_path=path)
    assert await listed(client) == ["a"]


async def test_a_path_may_end_with_the_suffix_of_its_file(client: Client, tmp_path: Path) -> None:
    place = {"store": "s"}
    added = await call(client, "add_memory", **place, path="a/b.md", content="c")
    assert (added["path"], (tmp_path / "stores/s/a/b.md").is_file()) == ("a/b", True)
    assert (await get(client, "a/b.MD"))["path"] == "a/b"
    assert (await call(client, "update_memory", **place, path="a/b.md", content="d"))["path"] == "a/b"
    moved = await call(client, "move_memory", **place, from_path="a/b.md", to_path="c.md")
    assert (moved["from_path"], moved["to_path"]) == ("a/b", "c")
    (tmp_path / "stores/s/c.md.md").write_text("another")
    assert (await content(client, "c.md"), await content(client, "c")) == ("another", "d")
    assert (await call(client, "remove_memory", **place, path="c.md"))["path"] == "c.md"
    assert (await call(client, "remove_memory", **place, path="c.md"))["path"] == "c"
    await refused(client, "remove_memory", "not_found", path="c.md")


async def test_new_names_leave_out_the_suffix_and_have_an_end(client: Client) -> None:
    assert "'.md'" in await refused(client, "add_memory", "invalid", path="a.md.md", content="c")
    await refused(client, "add_memory", "invalid", path="/".join("a" * 17), content="c")
    await refused(client, "add_memory", "invalid", path="/".join(["a" * 60] * 4), content="c")
    for path in ("x" * 120, "é" * 100, "/".join("a" * 16), "Ω ß/日本語 🌱/v1.2", "console", "com10", "a'b&c"):
        await add(client, path)
        assert await content(client, path) == "something"


@pytest.mark.parametrize(
    ("there", "new"), [("Note", "note"), ("Straße", "STRASSE"), ("c/x", "C/y"), ("É", "é"), ("a/b/c", "a/B/d")]
)
async def test_a_name_that_differs_in_case_only_is_refused(client: Client, there: str, new: str) -> None:
    await add(client, there)
    await add(client, "other")
    await refused(client, "add_memory", "conflict", path=new, content="c")
    await refused(client, "move_memory", "conflict", from_path="other", to_path=new)


async def test_a_memory_may_be_renamed_in_case_only(client: Client) -> None:
    await add(client, "c/Note")
    await move(client, "c/Note", "c/note")
    assert await listed(client, "c") == ["c/note"]


async def test_both_forms_of_an_accent_are_one_name(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    nfd = {form: unicodedata.normalize("NFD", form) for form in ("Käse", "Über", "Öl")}
    write(elsewhere, f"{nfd['Käse']}/{nfd['Über']}.md", "by a Mac")
    path = "Käse/Über"
    for spelt in (path, unicodedata.normalize("NFD", path)):
        assert (await get(client, spelt))["content"] == "by a Mac"
    await refused(client, "add_memory", "conflict", path=path, content="c")
    assert await listed(client, "Käse") == [path]
    assert list(await recent(client, category="Käse")) == [path]

    await update(client, path, content="by an agent")
    await add(client, "Käse/Öl")
    assert await listed(client, nfd["Käse"]) == ["Käse/Öl", path]
    assert {path.split("/")[0] for path in tree(elsewhere)} == {nfd["Käse"], "index.yaml"}
    assert "by an agent" in (elsewhere / nfd["Käse"] / f"{nfd['Über']}.md").read_text()
    await move(client, path, "Käse/Neu")
    assert sorted(await recent(client)) == ["Käse/Neu", "Käse/Öl"]


NAMES = ["Q: why", "what?", "a*b", "con", "x" * 200, "ends with dot.", " spaces ", "v1.md", "tab\there", "\\", "a\\b"]


@pytest.mark.parametrize("name", NAMES)
async def test_an_existing_file_may_have_any_name_the_system_allows(
    client: Client, app: App, elsewhere: Path, name: str
) -> None:
    register(app, elsewhere)
    write(elsewhere, f"c/{name}.md", "old")
    write(elsewhere, f"{name}.md", "top")
    assert await listed(client, "c") == [f"c/{name}"]
    assert await listed(client) == [name]
    assert await content(client, name) == "top"
    await update(client, f"c/{name}", content="new")
    assert await content(client, f"c/{name}") == "new"
    await move(client, f"c/{name}", "moved")
    assert await content(client, "moved") == "new"


async def test_a_name_that_is_no_unicode_spoils_nothing(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    write(elsewhere, "c/plain.md")
    for name in (b"c/caf\xe9.md", b"caf\xe9.md", b"fold\xe9r/x.md"):
        write(elsewhere, os.fsdecode(name), "latin")
    assert "c/plain" in await listed(client, "c")
    await listed(client)
    assert "c/plain" in await recent(client)
    await add(client, "c/new")
    await client.call_tool("reindex_store", {"store": "s"})
    await client.call_tool("prune_memories", {"store": "s"})


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a b", "é", "x" * 65, "con", "a\\b", "-a", "a."])
def test_a_stores_name_is_plain(app: App, name: str) -> None:
    with pytest.raises(Invalid):
        app.stores.add(CALLER, name, "a", "c", Metadata())
    assert app.stores.all(CALLER) == []


def test_two_stores_do_not_differ_in_case_only(app: App) -> None:
    app.stores.add(CALLER, "Work", "a", "c", Metadata())
    with pytest.raises(Conflict):
        app.stores.add(CALLER, "work", "a", "c", Metadata())


async def test_a_folder_cannot_go_where_a_file_is(client: Client, app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    write(elsewhere, "LICENSE", "free")
    await refused(client, "add_memory", "conflict", path="LICENSE/a", content="c")
    assert (elsewhere / "LICENSE").read_text() == "free"
