"""A folder that nothing leads out of."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.engines.files import atomic_write, rooted_folder
from memory_mcp.engines.files.rooted_folder import FolderEntry, Root
from memory_mcp.errors import AppError, Conflict
from memory_mcp.families.stores import Stores
from memory_mcp.families.stores.model import FileChange, Metadata
from memory_mcp.progress import report_nothing
from tests.families.stores.calls import CALLER, register, tree

pytestmark = pytest.mark.skipif(os.name == "nt", reason="symlinks need a privilege there")


@pytest.fixture
def options() -> dict[str, str]:
    return {"families": "stores", "durability": "normal"}


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "below").mkdir()
    for path in ("secret.md", "below/secret.md"):
        (folder / path).write_text("secret\n")
    return folder


@pytest.fixture
def inside(app: App, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registered store with a memory at the top, and one two folders down."""
    folder = tmp_path_factory.mktemp("top") / "store"
    (folder / "a" / "b").mkdir(parents=True)
    for path in ("top.md", "a/b/deep.md"):
        (folder / path).write_text("inside\n")
    return register(app, folder)


@pytest.fixture(params=["open folders", "checked paths"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as on Windows, which opens nothing relative to a folder and follows every symlink."""
    if request.param == "checked paths":
        monkeypatch.setattr(rooted_folder, "HAS_DIR_FD", False)
        monkeypatch.setattr(rooted_folder, "_FILE", rooted_folder._FILE & ~os.O_NOFOLLOW)


def refuses(act: Callable[..., object], *arguments: Any, **more: Any) -> None:
    with pytest.raises(AppError) as refused:
        act(CALLER, "s", *arguments, **more)
    assert refused.value.code in ("not_found", "conflict", "unavailable")
    assert "outside" not in refused.value.message


def leading_out(folder: Path, outside: Path) -> Iterator[tuple[str, Path]]:
    """Ways to say the same: in one step, absolute, and through other links."""
    yield "relative", Path(os.path.relpath(outside, folder))
    yield "absolute", outside
    yield "up and down", Path("..", folder.name, os.path.relpath(outside, folder))
    (folder / "hop1").symlink_to(outside)
    yield "chained", Path("hop1")
    (folder / "hop2").symlink_to(Path("..", folder.name, "hop1"))
    yield "chained twice", Path("hop2")
    (folder / "up").symlink_to("..")
    yield "through a link upwards", Path("up") / os.path.relpath(outside, folder.parent)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("where", ["", "a", "a/b"])
def test_a_folder_that_leads_out_is_refused_at_every_depth(app: App, inside: Path, outside: Path, where: str) -> None:
    folder, before, stores = inside / where, tree(outside), app.stores
    for _, target in leading_out(folder, outside):
        link = folder / "link"
        link.symlink_to(target)
        path = "/".join(filter(None, (where, "link")))
        for below in (path, f"{path}/below"):
            refuses(stores.get, f"{below}/secret", include_expired=True)
            refuses(stores.add, f"{below}/new", "c", Metadata())
            refuses(stores.update, f"{below}/secret", FileChange(content="c"))
            refuses(stores.remove, f"{below}/secret")
            refuses(stores.move, f"{below}/secret", "stolen")
            refuses(stores.move, "top", f"{below}/top")
            refuses(stores.list_category, below, 0, include_expired=True)
            refuses(stores.recent, below, 5, include_expired=True)
        found = stores.recent(CALLER, "s", None, 100, include_expired=True)
        assert {one.content for one in found.memories} == {"inside"}
        stores.reindex(CALLER, "s", report_nothing)
        stores.prune(CALLER, "s")
        link.unlink()
        assert tree(outside) == before


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("where", ["", "a", "a/b"])
def test_a_file_that_leads_out_is_refused_at_every_depth(app: App, inside: Path, outside: Path, where: str) -> None:
    folder, before, stores = inside / where, tree(outside), app.stores
    for _, target in leading_out(folder, outside):
        for secret in ("secret.md", "below/secret.md", "new.md"):
            link = folder / "link.md"
            link.symlink_to(target / secret)
            path = "/".join(filter(None, (where, "link")))
            refuses(stores.get, path, include_expired=True)
            refuses(stores.add, path, "c", Metadata())
            refuses(stores.update, path, FileChange(content="c"))
            refuses(stores.remove, path)
            refuses(stores.move, path, "stolen")
            refuses(stores.move, "top", path)
            assert link.is_symlink()
            link.unlink()
        assert tree(outside) == before
    assert (inside / "top.md").read_text() == "inside\n"


@pytest.mark.usefixtures("both_ways")
def test_an_index_that_leads_out_is_not_written_through(app: App, inside: Path, outside: Path) -> None:
    (outside / "index.yaml").write_text("theirs: true\n")
    before = tree(outside)
    (inside / "index.yaml").symlink_to(outside / "index.yaml")
    app.stores.add(CALLER, "s", "new", "c", Metadata())
    app.stores.reindex(CALLER, "s", report_nothing)
    assert tree(outside) == before


@pytest.mark.usefixtures("both_ways")
def test_symlinks_that_stay_inside_work(app: App, inside: Path) -> None:
    stores = app.stores
    (inside / "short").symlink_to("a/b")
    (inside / "a" / "up").symlink_to("../a")
    (inside / "far").symlink_to(inside / "a" / "up" / "b")
    (inside / "a" / "to-top.md").symlink_to("../top.md")
    (inside / "a" / "again.md").symlink_to(inside / "a" / "to-top.md")
    for path in ("short/deep", "a/up/b/deep", "far/deep", "a/to-top", "a/again", "a/up/up/again"):
        assert stores.get(CALLER, "s", path, include_expired=False).content == "inside"
    stores.update(CALLER, "s", "far/deep", FileChange(content="changed"))
    stores.update(CALLER, "s", "a/again", FileChange(content="changed too"))
    assert "changed" in (inside / "a" / "b" / "deep.md").read_text()
    assert "changed too" in (inside / "top.md").read_text()
    assert (inside / "a" / "again.md").is_symlink()
    stores.add(CALLER, "s", "short/new", "c", Metadata())
    assert (inside / "a" / "b" / "new.md").is_file()
    listed = stores.list_category(CALLER, "s", "short", 0, include_expired=True)
    assert [one.path for one in listed.memories] == ["short/deep", "short/new"]
    everything = stores.recent(CALLER, "s", None, 100, include_expired=True)
    assert {one.path for one in everything.memories} == {"top", "a/b/deep", "a/b/new"}


@pytest.mark.usefixtures("both_ways")
def test_a_symlink_is_removed_and_moved_itself_and_its_target_stays(app: App, inside: Path) -> None:
    stores = app.stores
    for name in ("one", "two", "three"):
        (inside / "a" / f"{name}.md").symlink_to("../top.md")
    (inside / "absolute.md").symlink_to(inside / "top.md")
    stores.remove(CALLER, "s", "a/one")
    assert not (inside / "a" / "one.md").is_symlink()
    stores.add(CALLER, "s", "a/one", "c", Metadata())
    stores.move(CALLER, "s", "a/two", "a/renamed")
    stores.move(CALLER, "s", "absolute", "a/b/absolute")
    for path in ("a/renamed", "a/b/absolute", "a/three", "top"):
        assert stores.get(CALLER, "s", path, include_expired=False).content == "inside"
    before = tree(inside)
    with pytest.raises(Conflict, match="symlink"):
        stores.move(CALLER, "s", "a/three", "three")
    assert tree(inside) == before
    assert not (inside / "top.md").is_symlink()


@pytest.mark.usefixtures("both_ways")
def test_the_folder_itself_may_be_reached_through_a_symlink(app: App, inside: Path) -> None:
    way = inside.parent / "way"
    way.symlink_to(inside.name)
    with Root(way).entry(["top.md"]) as place:
        assert place.read(100)[0] == b"inside\n"
    (inside / "absolute.md").symlink_to(way / "top.md")
    with Root(way).entry(["absolute.md"]) as place:
        assert place.read(100)[0] == b"inside\n"


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    "target", [".", "..", "../..", "a", "a/..", "loop.md", "nowhere", "/", "top.md/x", "a/b/../.."]
)
def test_a_link_that_leads_to_no_file_is_no_memory(app: App, inside: Path, target: str) -> None:
    stores = app.stores
    for folder, path in ((inside, "loop"), (inside / "a", "a/loop")):
        link = folder / "loop.md"
        link.symlink_to(target)
        before = tree(inside)
        refuses(stores.get, path, include_expired=True)
        refuses(stores.update, path, FileChange(content="c"))
        refuses(stores.remove, path)
        refuses(stores.move, path, "moved")
        assert tree(inside).items() >= {k: v for k, v in before.items() if "index" not in k}.items()
        link.unlink()


def test_links_without_end_are_refused(app: App, inside: Path) -> None:
    for count in range(60):
        (inside / f"l{count}").symlink_to(f"l{count + 1}")
        (inside / f"f{count}.md").symlink_to(f"f{count + 1}.md")
    (inside / "l60").mkdir()
    (inside / "l60" / "x.md").write_text("far")
    (inside / "f60.md").write_text("far")
    for path in ("l0/x", "f0"):
        refuses(app.stores.get, path, include_expired=True)
    for path in ("l50/x", "f50"):
        assert app.stores.get(CALLER, "s", path, include_expired=True).content == "far"


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_special_files_are_refused_without_blocking(app: App, inside: Path, make: Callable[[Path], None]) -> None:
    make(inside / "odd.md")
    make(inside / "index.yaml")
    stores, opened = app.stores, set()
    for count in range(5):
        refuses(stores.get, "odd", include_expired=True)
        refuses(stores.update, "odd", FileChange(content="c"))
        refuses(stores.remove, "odd")
        refuses(stores.move, "odd", "moved")
        refuses(stores.move, "top", "odd")
        refuses(stores.add, "odd", "c", Metadata())
        listed = stores.list_category(CALLER, "s", None, 0, include_expired=True)
        assert [one.path for one in listed.memories] == ["top"]
        stores.reindex(CALLER, "s", report_nothing)
        assert len(stores.recent(CALLER, "s", None, 10, include_expired=True).memories) == 2
        if count:  # the first round opens the cache
            opened.add(open_files())
    assert (inside / "odd.md").exists()
    assert len(opened) == 1


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.usefixtures("both_ways")
def test_a_missing_file_raises_file_not_found(app: App, inside: Path) -> None:
    for path in ("none", "none/x", "top.md/x", "a/b/deep/x", "a/b"):
        with pytest.raises(AppError) as refused:
            app.stores.get(CALLER, "s", path, include_expired=True)
        assert refused.value.code == "not_found"


class Swapper:
    """Puts a symlink to the outside in a folder's place, and the folder back, as fast as it can."""

    def __init__(self, folder: Path, outside: Path) -> None:
        self._folder, self._aside, self._link = folder, folder.with_name("aside"), folder.with_name("trap")
        self._link.symlink_to(outside)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._swap)
        self.swaps = self._made = 0

    def _swap(self) -> None:
        while not self._done.is_set():
            self._folder.rename(self._aside)
            self._put(self._link)
            self._folder.rename(self._link)
            self._put(self._aside)
            self.swaps += 1

    def _put(self, source: Path) -> None:
        """In the folder's place, where a writer may have made one just now."""
        try:
            source.rename(self._folder)
        except OSError:
            self._made += 1
            self._folder.rename(self._folder.with_name(f"made{self._made}"))
            self._put(source)

    def __enter__(self) -> "Swapper":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()


def test_a_folder_swapped_for_a_symlink_while_we_look_never_leads_out(inside: Path, outside: Path) -> None:
    (inside / "a" / "secret.md").write_text("inside\n")
    before, root = tree(outside), Root(inside)
    read = written = 0
    with Swapper(inside / "a", outside) as swapper:
        for count in range(100_000):
            if count >= 3000 and min(read, written, swapper.swaps) > 20:
                break
            try:
                with root.entry(["a", "secret.md"]) as place:
                    assert place.read(100)[0] == b"inside\n"
                    read += 1
                with root.folder(["a"], make=True) as folder:
                    atomic_write.write(folder.sibling(f"new{count % 50}.md"), b"inside\n", durable=False)
                    atomic_write.write_new(folder.sibling("taken.md"), b"inside\n", durable=False)
                    folder.sibling("taken.md").remove()
                    written += 1
            except OSError:
                continue
    assert tree(outside) == before
    assert min(read, written, swapper.swaps) > 20


def test_a_file_swapped_for_a_symlink_while_we_look_never_leads_out(inside: Path, outside: Path) -> None:
    before, root = tree(outside), Root(inside)
    outcomes = set()
    with Swapper(inside / "top.md", outside / "secret.md"):
        for _ in range(3000):
            try:
                with root.entry(["top.md"]) as place:
                    content = place.read(100)[0]
                    outcomes.add(content)
            except OSError:
                outcomes.add(b"refused")
    assert outcomes == {b"inside\n", b"refused"}
    assert tree(outside) == before


def calls(stores: Stores, count: int) -> list[Callable[[], str]]:
    return [
        lambda: stores.get(CALLER, "s", "a/secret", include_expired=True).content,
        lambda: str(stores.add(CALLER, "s", f"a/n{count}", "inside", Metadata()).created),
        lambda: str(stores.update(CALLER, "s", f"a/n{count}", FileChange(content="i")).updated),
        lambda: str(stores.move(CALLER, "s", f"a/n{count}", f"a/m{count}").moved),
        lambda: str(stores.remove(CALLER, "s", f"a/m{count}").removed),
        lambda: "/".join(
            one.summary for one in stores.list_category(CALLER, "s", "a", 0, include_expired=True).memories
        ),
        lambda: "/".join(one.content for one in stores.recent(CALLER, "s", "a", 9, include_expired=True).memories),
    ]


def test_the_product_is_not_led_out_by_swaps_either(app: App, inside: Path, outside: Path) -> None:
    (inside / "a" / "secret.md").write_text("inside\n")
    before = tree(outside)
    outcomes = set()
    with Swapper(inside / "a", outside):
        for count in range(100):
            for act in calls(app.stores, count):
                try:
                    outcomes.add(act())
                except AppError as exc:
                    outcomes.add(exc.code)
    assert not [outcome for outcome in outcomes if "secret" in outcome]
    assert {"inside", "True"} <= outcomes
    assert tree(outside) == before


@pytest.mark.usefixtures("both_ways")
def test_a_place_names_its_siblings(inside: Path) -> None:
    with Root(inside).folder(["a"]) as folder:
        assert isinstance(folder, FolderEntry)
        with folder.child("b") as child:
            assert child.sibling("deep.md").read(3)[0] == b"ins"
        (inside / "a" / "link").symlink_to("b")
        with pytest.raises(NotADirectoryError), folder.child("link"):
            pass
