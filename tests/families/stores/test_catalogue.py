"""The cache, while other processes look and files change: whatever comes in between, it says what the files say."""

import errno
import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.families.stores.catalogue import Catalogue
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.model import Metadata, PrunedStore, ReindexedStore
from memory_mcp.progress import report_nothing
from tests.families.stores.calls import CALLER, LONG_AGO, index, indexes, register, settle, tree, write

MB = 1024 * 1024
EXPIRED = f"---\nexpires_at: {LONG_AGO}\n---\nover\n"


def recent(app: App, limit: int = 10) -> list[str]:
    return [one.path for one in app.stores.recent(CALLER, "s", None, limit, include_expired=True).memories]


def listed(app: App, category: str | None = None) -> list[str]:
    return [one.path for one in app.stores.list_category(CALLER, "s", category, 0, include_expired=True).memories]


def reindex(app: App) -> ReindexedStore:
    return app.stores.reindex(CALLER, "s", report_nothing)


def prune(app: App) -> PrunedStore:
    return app.stores.prune(CALLER, "s")


def slow_process(app: App) -> Callable[[], None]:
    """A process that has looked at the top of the store, and puts in what it saw when it is called."""
    folder = app.stores._access.open(CALLER, "s")
    slow = Catalogue(app.stores._access._caches.database(CALLER.user), folder)
    seen = folder.listing(())
    read = slow._read_changed(seen)

    def put() -> None:
        with slow._db.write() as tx:
            slow._store(tx, seen, read)

    return put


def just_after(patch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Once, when a method of the catalogue is done."""
    real, once = getattr(Catalogue, name), iter([act])

    def done(*arguments: Any, **more: Any) -> Any:
        result = real(*arguments, **more)
        for act in once:
            act()
        return result

    patch.setattr(Catalogue, name, done)


@pytest.mark.parametrize("look", [recent, listed])
@pytest.mark.parametrize("moment", ["_read_changed", "_read_and_store"])
@pytest.mark.parametrize("is_settled", [True, False])
def test_an_older_state_stored_by_a_slower_process_hides_no_memory(
    app: App,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[App], list[str]],
    moment: str,
    is_settled: bool,
) -> None:
    def saved(path: str) -> None:
        file = write(elsewhere, path)
        if is_settled:
            settle(file)

    register(app, elsewhere)
    saved("a.md")
    put = slow_process(app)
    saved("f.md")
    assert sorted(recent(app)) == ["a", "f"]
    saved("g.md")
    just_after(monkeypatch, moment, put)
    for _ in range(2):
        assert sorted(look(app)) == ["a", "f", "g"]
    settle(*elsewhere.glob("*.md"))
    for act in (recent, listed):
        assert sorted(act(app)) == ["a", "f", "g"]


def test_an_older_text_stored_by_a_slower_process_is_not_used(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    file = write(elsewhere, "a.md", "old")
    settle(file)
    put = slow_process(app)
    file.write_text("new")
    os.utime(file, (1_900_000_000, 1_600_000_000))
    assert recent(app) == ["a"]
    settle(write(elsewhere, "g.md"))
    just_after(monkeypatch, "_read_changed", put)
    for _ in range(2):
        found = app.stores.list_category(CALLER, "s", None, 0, include_expired=True).memories
        assert [one.summary for one in found] == ["new", "something"]


# Files that cannot be read


@contextmanager
def unreadable(name: str) -> Iterator[None]:
    """As if the file were another user's."""
    real = FolderEntry.read

    def read(place: FolderEntry, max_bytes: int) -> Any:
        if place.name == name:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(place, max_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderEntry, "read", read)
        yield


def test_a_file_that_grew_too_large_is_no_memory_and_hides_no_other(app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    write(elsewhere, "a.md", EXPIRED)
    write(elsewhere, "b.md")
    assert sorted(recent(app)) == ["a", "b"]
    write(elsewhere, "a.md", EXPIRED + "x" * 11 * MB)
    assert (recent(app), listed(app)) == (["b"], ["b"])
    assert prune(app).pruned == []
    with pytest.raises(AppError) as refused:
        app.stores.get(CALLER, "s", "a", include_expired=True)
    assert refused.value.code == "too_large"
    write(elsewhere, "a.md", "small again")
    assert (sorted(recent(app)), listed(app)) == (["a", "b"], ["a", "b"])


def test_a_file_that_cannot_be_read_any_more_is_forgotten_until_it_can(app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    for name in ("a.md", "b.md"):
        settle(write(elsewhere, name))
    assert sorted(recent(app)) == ["a", "b"]
    settle(write(elsewhere, "a.md", "changed"))
    with unreadable("a.md"):
        assert (recent(app), listed(app)) == (["b"], ["b"])
    assert (sorted(recent(app)), listed(app)) == (["a", "b"], ["a", "b"])


def test_a_file_that_becomes_unreadable_is_left_out(app: App, elsewhere: Path) -> None:
    """The cache knows these files: they need not be read to be chosen."""
    register(app, elsewhere)
    for name in ("a.md", "b.md"):
        settle(write(elsewhere, name, EXPIRED))
    assert sorted(recent(app)) == ["a", "b"]
    with unreadable("a.md"):
        assert recent(app) == ["b"]
        pruned = prune(app)
    assert (pruned.pruned, (elsewhere / "a.md").exists()) == (["b"], True)
    assert "1 could not be deleted" in (pruned.notice or "")


def test_of_many_long_memories_no_more_are_read_than_are_shown(app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    for count in range(20):
        write(elsewhere, f"m{count}.md", "x" * 5 * MB)
    recent(app)
    tracemalloc.start()
    found = app.stores.recent(CALLER, "s", None, 20, include_expired=True)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.count == 1
    assert "19 more" in (found.notice or "")
    assert peak_bytes < 40 * MB


# Turns


@pytest.mark.parametrize("act", [reindex, prune])
def test_the_lock_is_free_while_files_are_read(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[App], object]
) -> None:
    register(app, elsewhere)
    for count in range(3):
        settle(write(elsewhere, f"c{count}/m.md", EXPIRED))
    real, free = StoreFolder.texts, []

    def texts(folder: StoreFolder, *arguments: Any) -> Any:
        yield from real(folder, *arguments)
        with suppress(Unavailable), StoreFolder(folder.store, durable=False).lock(timeout_s=0):
            free.append(True)

    monkeypatch.setattr(StoreFolder, "texts", texts)
    act(app)
    assert free == [True] * 3


def cannot_write(patch: pytest.MonkeyPatch, folder: str) -> None:
    real_written, real_remove = atomic_write._write_part, FolderEntry.remove

    def refuse(place: FolderEntry) -> None:
        if place.folder.name == folder:
            raise PermissionError(errno.EACCES, "Permission denied")

    def written(target: FolderEntry, *arguments: Any) -> Any:
        refuse(target)
        return real_written(target, *arguments)

    def remove(place: FolderEntry) -> None:
        refuse(place)
        real_remove(place)

    patch.setattr(atomic_write, "_write_part", written)
    patch.setattr(FolderEntry, "remove", remove)


def test_a_folder_that_cannot_be_written_keeps_no_other_from_its_index(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    for name in ("a", "b", "c/d"):
        write(elsewhere, f"{name}/x.md")
    cannot_write(monkeypatch, "a")
    with pytest.raises(Unavailable, match=r"1 of 5 indexes could not be written: a\."):
        reindex(app)
    assert indexes(elsewhere) == {".", "b", "c", "c/d"}


def test_a_folder_that_cannot_be_written_keeps_no_other_from_being_pruned(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    for name in ("a", "b", "c"):
        write(elsewhere, f"{name}/x.md", EXPIRED)
    cannot_write(monkeypatch, "a")
    pruned = prune(app)
    assert (pruned.pruned_count, pruned.pruned) == (2, ["b/x", "c/x"])
    assert "1 could not be deleted" in (pruned.notice or "")


def test_many_expired_memories_of_one_category_are_all_pruned(app: App, elsewhere: Path) -> None:
    register(app, elsewhere)
    for count in range(250):
        write(elsewhere, f"c/m{count:03}.md", EXPIRED)
    write(elsewhere, "c/kept.md")
    pruned = prune(app)
    assert pruned.pruned == [f"c/m{count:03}" for count in range(250)]
    assert pruned.notice is None
    assert [one["path"] for one in index(elsewhere / "c")["memories"]] == ["c/kept"]


# index.yaml


def test_an_index_that_cannot_be_read_is_unchanged(app: App, tmp_path: Path) -> None:
    app.stores.add(CALLER, "s", "x", "c", Metadata())
    theirs = write(tmp_path / "stores" / "s", "index.yaml", "site: mine\n")
    with unreadable("index.yaml"):
        app.stores.add(CALLER, "s", "y", "c", Metadata())
        assert listed(app) == ["x", "y"]
        with pytest.raises(Unavailable, match="the top"):
            reindex(app)
    assert theirs.read_text() == "site: mine\n"


def test_listing_beside_somebodys_index_takes_no_turn(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.stores.add(CALLER, "s", "x", "c", Metadata())
    write(tmp_path / "stores" / "s", "index.yaml", "site: mine\n")
    before = tree(tmp_path / "stores")
    monkeypatch.delattr(StoreFolder, "lock")
    assert listed(app) == ["x"]
    assert tree(tmp_path / "stores") == before
