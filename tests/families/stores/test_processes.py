"""Several servers and a person on one store: nothing acknowledged is lost, and no file is ever half there."""

import random
import sys
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from memory_mcp.app import App
from memory_mcp.engines.files import atomic_write, rename
from memory_mcp.engines.files.rooted_folder import FolderEntry
from memory_mcp.errors import AppError, Conflict
from memory_mcp.families.stores import category_indexes, folders, operations
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.frontmatter import parse
from memory_mcp.families.stores.model import FileChange, Metadata
from tests.conftest import Clock
from tests.events import TIMEOUT_S
from tests.exhaustive import rounds
from tests.families.stores.calls import CALLER, at_once, check_indexes, files, register, unfinished, write
from tests.wire import Stdio, kill_after

EACH = 40
ROUNDS = rounds(8, soak=30)
FLAGS = ("--families", "stores", "--durability", "normal")


@pytest.fixture
def servers(tmp_path: Path) -> Any:
    started = [Stdio.start(tmp_path, *FLAGS, hello=False) for _ in range(2)]
    for server in started:
        server.ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}},
        )
        server.send({"method": "notifications/initialized"})
    yield started
    for server in started:
        server.kill()


def test_every_add_of_two_servers_and_a_person_is_kept(tmp_path: Path, servers: list[Stdio]) -> None:
    store = tmp_path / "stores" / "s"
    servers_answered = threading.Semaphore(0)

    def agent(number: int) -> None:
        server = servers[number]
        for count in range(EACH):
            path = f"c{count % 3}/by-{number}-{count}"
            server.call("add_memory", store="s", path=path, content=f"memory {path}")
            servers_answered.release()
            server.call("update_memory", store="s", path=path, tags=[f"t{count}"])
            if count % 4 == 0:
                server.call("move_memory", store="s", from_path=path, to_path=f"{path}-moved")
            server.call("cortex_get_recent_memories", store="s", limit=20)

    def person() -> None:
        for count in range(EACH):
            write(store, f"c{count % 3}/person-{count}.md", f"by hand {count}")
            servers_answered.acquire(timeout=TIMEOUT_S)  # about as fast as the others

    at_once(lambda: agent(0), lambda: agent(1), person)
    wanted = {f"c{count % 3}/person-{count}" for count in range(EACH)} | {
        f"c{count % 3}/by-{number}-{count}{'-moved' * (count % 4 == 0)}" for number in range(2) for count in range(EACH)
    }
    assert files(store) == wanted
    for server in servers:
        assert server.call("reindex_store", store="s")["memories"] == len(wanted)
        listed = [
            memory["path"]
            for category in ("c0", "c1", "c2")
            for memory in server.call("list_memories", store="s", category=category)["memories"]
        ]
        assert set(listed) == wanted
    check_indexes(store)
    assert unfinished(store) == []


def test_of_two_servers_that_add_the_same_path_one_gets_a_conflict(tmp_path: Path, servers: list[Stdio]) -> None:
    made: list[tuple[int, int]] = []

    def agent(number: int) -> None:
        for count in range(EACH):
            arguments = {"store": "s", "path": f"p{count}", "content": f"by {number}"}
            answer = servers[number].ask("tools/call", {"name": "add_memory", "arguments": arguments})
            if "result" in answer:
                made.append((count, number))
            else:
                assert answer["error"]["data"]["error"] == "conflict"

    at_once(lambda: agent(0), lambda: agent(1))
    assert sorted(count for count, _ in made) == list(range(EACH))
    for count, number in made:
        assert servers[0].call("get_memory", store="s", path=f"p{count}")["content"] == f"by {number}"
    check_indexes(tmp_path / "stores" / "s")


def test_stores_made_at_the_same_time_are_all_registered(tmp_path: Path, servers: list[Stdio]) -> None:
    def agent(number: int) -> None:
        for count in range(15):
            servers[number].call("add_memory", store=f"s{number}-{count}", path="a", content="c")
            servers[number].call("add_memory", store=f"shared-{count}", path=f"by-{number}", content="c")

    at_once(lambda: agent(0), lambda: agent(1))
    registered = yaml.safe_load((tmp_path / "stores.yaml").read_text())
    names = {f"s{n}-{count}" for n in range(2) for count in range(15)} | {f"shared-{count}" for count in range(15)}
    assert set(registered) == names
    for count in range(15):
        assert files(tmp_path / "stores" / f"shared-{count}") == {"by-0", "by-1"}


def test_looking_through_never_fails_while_others_write(tmp_path: Path, servers: list[Stdio]) -> None:
    writer, reader = servers
    writer.call("add_memory", store="s", path="c/kept", content="c")
    done = threading.Event()

    def write_on() -> None:
        try:
            for count in range(50):
                writer.call("add_memory", store="s", path=f"c/m{count}", content="c")
                writer.call("move_memory", store="s", from_path=f"c/m{count}", to_path=f"d/m{count}")
                writer.call("remove_memory", store="s", path=f"d/m{count}")
        finally:
            done.set()

    def read_on() -> None:
        while not done.is_set():
            found = reader.call("cortex_get_recent_memories", store="s", limit=100)["memories"]
            assert "c/kept" in {one["path"] for one in found}
            assert reader.call("list_memories", store="s", category="c")["count"] >= 1

    at_once(write_on, read_on)


def test_an_update_starts_over_from_what_a_person_saved_meanwhile(
    app: App, elsewhere: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person saves at the worst moment: when our file is written and about to take the place of theirs."""
    register(app, elsewhere)
    file = write(elsewhere, "note.md", "---\nmine: 1\n---\nfirst\n")
    real, saves = atomic_write._write_part, iter(["---\nmine: 2\n---\nsecond, by hand\n"])

    def written_slowly(*arguments: Any) -> Any:
        part = real(*arguments)
        if arguments[0].name == "note.md" and (text := next(saves, None)):
            file.write_text(text)
        return part

    monkeypatch.setattr(atomic_write, "_write_part", written_slowly)
    app.stores.update(CALLER, "s", "note", FileChange(tags=["t"]))
    found = parse(file.read_text())
    assert (found.content, found.fields["mine"], found.metadata.tags) == ("second, by hand", "2", ["t"])
    assert unfinished(elsewhere) == []


def test_a_person_who_saves_repeatedly_is_not_overwritten(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    file = write(elsewhere, "note.md", "0")
    real, count = atomic_write._write_part, 0

    def written_slowly(*arguments: Any) -> Any:
        nonlocal count
        part = real(*arguments)
        count += 1
        file.write_text(f"by hand {'x' * count}")
        return part

    monkeypatch.setattr(atomic_write, "_write_part", written_slowly)
    with pytest.raises(Conflict):
        app.stores.update(CALLER, "s", "note", FileChange(content="mine"))
    assert file.read_text() == f"by hand {'x' * count}"
    assert count == operations.MAX_ATTEMPTS
    assert unfinished(elsewhere) == []


def test_a_file_deleted_while_it_is_updated_does_not_come_back(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    file = write(elsewhere, "note.md", "0")
    real = atomic_write._write_part

    def written_slowly(*arguments: Any) -> Any:
        part = real(*arguments)
        file.unlink(missing_ok=True)
        return part

    monkeypatch.setattr(atomic_write, "_write_part", written_slowly)
    with pytest.raises(AppError) as refused:
        app.stores.update(CALLER, "s", "note", FileChange(content="mine"))
    assert refused.value.code == "not_found"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two names change places")
def test_a_save_at_the_last_moment_is_kept_and_built_upon(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    file = write(elsewhere, "note.md", "first\n")
    real, saves = rename.exchange, iter(["second, by hand\n", "third, by hand\n", "fourth, by hand\n"])

    def exchange(one: FolderEntry, other: FolderEntry) -> bool:
        if other.name == "note.md" and (text := next(saves, None)):
            write(elsewhere, "saved", text).replace(file)
        return real(one, other)

    monkeypatch.setattr(atomic_write, "exchange", exchange)
    app.stores.update(CALLER, "s", "note", FileChange(tags=["t"]))
    kept = parse(file.read_text())
    assert (kept.content, kept.metadata.tags) == ("fourth, by hand", ["t"])


def test_a_persons_save_is_never_mixed_with_the_former_text(tmp_path: Path, servers: list[Stdio]) -> None:
    """An editor that saves whole files, and agents that change tags, at the same time. That every save is kept is
    tested by those with a worst moment, above and below."""
    servers[0].call("add_memory", store="s", path="note", content="0")
    file = tmp_path / "stores" / "s" / "note.md"
    done, answered = threading.Event(), threading.Semaphore(0)

    def agent(server: Stdio, name: str) -> None:
        count = 0
        while not done.is_set():
            count += 1
            arguments = {"store": "s", "path": "note", "tags": [f"{name}{count}"]}
            answer = server.ask("tools/call", {"name": "update_memory", "arguments": arguments})
            assert "result" in answer or answer["error"]["data"]["error"] == "conflict"
            answered.release()

    def person() -> None:
        try:
            for count in range(1, 60):
                saved = file.with_name(".note.md.swp")
                saved.write_text(f"---\ncount: {count}\n---\n\nby hand {count}\n")
                saved.replace(file)
                for _ in range(3):
                    answered.acquire(timeout=TIMEOUT_S)
                found = parse(file.read_text())
                assert found.content == f"by hand {found.fields['count']}"
        finally:
            done.set()

    at_once(lambda: agent(servers[0], "a"), lambda: agent(servers[1], "b"), person)


def test_a_writer_that_was_killed_while_it_held_the_lock_keeps_no_other_waiting(
    tmp_path: Path, servers: list[Stdio]
) -> None:
    one, two = servers
    one.call("add_memory", store="s", path="a", content="c")
    for count in range(200):
        one.post("tools/call", {"name": "add_memory", "arguments": {"store": "s", "path": f"m{count}", "content": "c"}})
    one.kill()
    two.call("add_memory", store="s", path="b", content="c")  # or it would be refused
    assert len(unfinished(tmp_path)) <= 1  # at most the one it was writing


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds, updates and moves until the process dies; then every file is whole, and all that was answered is there."""
    chance = random.Random(7)
    there: dict[str, set[str]] = {}  # what each memory may say: as acknowledged, or as requested last
    store = tmp_path / "stores" / "s"
    acknowledged = 0
    for round_ in range(ROUNDS):
        server = Stdio.start(tmp_path, *FLAGS)
        killer = kill_after(server, chance.randint(1, 60))
        acknowledged += write_until_killed(server, round_, there)
        killer.join()
        server.kill()
        for path in store.rglob("*.md"):
            file = parse(path.read_text())
            assert file.metadata.source == "mcp"
            name = path.relative_to(store).as_posix().removesuffix(".md")
            assert file.content in there[name], name
        assert {name for name, texts in there.items() if "" not in texts} <= files(store)

    last = Stdio.start(tmp_path, *FLAGS)
    assert last.call("reindex_store", store="s")["memories"] == len(files(store))
    last.call("add_memory", store="s", path=f"c{ROUNDS - 1}/last", content="c")
    check_indexes(store)
    for name, texts in there.items():
        if "" not in texts:
            assert last.call("get_memory", store="s", path=name)["content"] in texts
    last.close()
    assert acknowledged > ROUNDS
    left = [path.parent.name for path in unfinished(store)]
    assert len(left) == len(set(left))  # each process left no more than what it was writing
    leave_for_long(monkeypatch)
    for round_ in range(ROUNDS):
        app.stores.add(CALLER, "s", f"c{round_}/after", "c", Metadata())
    assert unfinished(store) == []


def leave_for_long(patch: pytest.MonkeyPatch) -> None:
    """As if whatever is there had been left there long ago."""
    patch.setattr(atomic_write, "ABANDONED_AFTER_S", -60.0)


def write_until_killed(server: Stdio, round_: int, there: dict[str, set[str]]) -> int:
    """How many calls were answered. A memory that may or may not be there may also say nothing ("")."""
    answered = 0
    try:
        for count in range(10_000):
            path, moved = f"c{round_}/m{count}", f"c{round_}/moved{count}"
            one, two = (f"{word} {round_} {count} " * 200 + "end" for word in ("old", "new"))
            there[path] = {"", one}
            server.call("add_memory", store="s", path=path, content=one)
            there[path] = {one, two}
            server.call("update_memory", store="s", path=path, content=two)
            there[path] = {two}
            answered += 2
            if count % 2:
                there[path] = there[moved] = {"", two}
                server.call("move_memory", store="s", from_path=path, to_path=moved)
                del there[path]
                there[moved] = {two}
                answered += 1
    except (EOFError, BrokenPipeError, ValueError):
        pass  # the killer was here; half a line is no answer
    return answered


class PowerCut(BaseException):
    """Nothing of ours runs any more."""


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("where", "name"),
    [
        (StoreFolder, "_check_clashes"),
        (folders, "rename_to_new"),
        (StoreFolder, "_sync"),
        (StoreFolder, "write_index"),
        (category_indexes.CategoryIndexes, "update"),
    ],
)
def test_a_move_cut_short_leaves_the_memory_at_one_of_both_ends(
    app: App, tmp_path: Path, where: Any, name: str, before: bool
) -> None:
    store = tmp_path / "stores" / "s"
    app.stores.add(CALLER, "s", "a", "words", Metadata())
    was = (store / "a.md").read_bytes()
    real = getattr(where, name)

    def cut(*arguments: Any, **more: Any) -> None:
        if not before:
            real(*arguments, **more)
        raise PowerCut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, cut)
        with pytest.raises(PowerCut):
            app.stores.move(CALLER, "s", "a", "b/c")
    [path] = files(store)
    is_moved = name not in ("_check_clashes", "rename_to_new") or (name == "rename_to_new" and not before)
    assert path == ("b/c" if is_moved else "a")
    assert (store / f"{path}.md").read_bytes() == was
    app.stores.move(CALLER, "s", path, "d")
    assert app.stores.get(CALLER, "s", "d", include_expired=False).content == "words"
    assert unfinished(store) == []


@pytest.mark.parametrize("durable", [True, False])
def test_names_are_synced_if_configured(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    register(app, elsewhere)
    write(elsewhere, "a.md")
    (elsewhere / "b").mkdir()
    synced: list[str] = []
    monkeypatch.setattr(FolderEntry, "sync_folder", lambda place: synced.append(place.name))
    [store] = app.stores.all(CALLER)
    folder = StoreFolder(store, durable=durable)
    folder.move(("a",), ("b", "c"))
    folder.remove(("b", "c"))
    assert synced == ["c.md", "a.md", "c.md"] * durable


def test_files_of_a_running_writer_in_a_nested_store_stay(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each store has a lock of its own, and both write into one folder."""
    register(app, elsewhere, "outer")
    write(elsewhere, "sub/old.md")
    register(app, elsewhere / "sub", "inner")
    real, once = atomic_write._write_part, iter([1])

    def written_slowly(target: FolderEntry, *arguments: Any) -> Any:
        part = real(target, *arguments)
        if target.name == "one.md" and next(once, None):
            app.stores.add(CALLER, "outer", "sub/two", "c", Metadata())
        return part

    monkeypatch.setattr(atomic_write, "_write_part", written_slowly)
    app.stores.add(CALLER, "inner", "one", "c", Metadata())
    assert files(elsewhere) == {"sub/old", "sub/one", "sub/two"}


def test_a_full_disk_is_explained_and_changes_nothing(
    app: App, elsewhere: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    app.stores.add(CALLER, "s", "a", "old", Metadata())
    before = (elsewhere / "a.md").read_bytes()
    clock.now += timedelta(hours=1)

    def full(*arguments: Any) -> Any:
        raise OSError(28, "No space left on device", str(elsewhere))

    monkeypatch.setattr(atomic_write, "_write_part", full)
    for act in (
        lambda: app.stores.update(CALLER, "s", "a", FileChange(content="new")),
        lambda: app.stores.add(CALLER, "s", "b", "c", Metadata()),
    ):
        with pytest.raises(AppError, match="No space left") as refused:
            act()
        assert refused.value.code == "unavailable"
        assert str(elsewhere) not in refused.value.message
    assert (elsewhere / "a.md").read_bytes() == before
    assert not (elsewhere / "b.md").exists()


def test_an_editor_that_empties_the_file_first_loses_nothing(
    app: App, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app, elsewhere)
    file = write(elsewhere, "a.md", "---\nk: 1\n---\n\nbefore\n")
    file.write_text("")  # and the editor writes the text a moment later
    now_ns = file.stat().st_mtime_ns

    def save(seconds: float) -> None:
        nonlocal now_ns
        file.write_text("---\nk: 2\n---\n\nafter\n")
        now_ns = file.stat().st_mtime_ns + operations.MAX_SAVE_NS

    monkeypatch.setattr(operations, "time", SimpleNamespace(time_ns=lambda: now_ns, sleep=save))
    app.stores.update(CALLER, "s", "a", FileChange(tags=["t"]))
    kept = parse(file.read_text())
    assert (kept.content, kept.fields["k"], kept.metadata.tags) == ("after", "2", ["t"])
