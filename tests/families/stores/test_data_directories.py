"""Data directories are no stores: not by themselves, not from above, not from inside, and not by a symlink."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.engines.files import data_directory
from memory_mcp.relay.options import MARKER
from tests import processes
from tests.families.graph.test_adoption import make_folder
from tests.families.stores.calls import tree, write
from tests.families.stores.test_cli import answer, run
from tests.processes import environment
from tests.wire import Stdio

FAMILIES = ("--families", "stores")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory beside others, not above them."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    answer("stores", "list", data_dir=folder)
    return folder


@pytest.fixture(params=["marked", "of an older version"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The data directory of another server."""
    folder = tmp_path / "home" / "apps" / "other"
    folder.mkdir(mode=0o700, parents=True)
    answer("stores", "list", data_dir=folder)
    if request.param == "of an older version":
        (folder / MARKER).unlink()
    write(folder, "users/u1/stores/s/private.md", "a secret")
    return folder


@pytest.fixture
def server(data_dir: Path) -> Iterator[Stdio]:
    server = Stdio.start(data_dir, *FAMILIES)
    yield server
    server.close()


def refusal(server: Stdio, tool: str, **arguments: object) -> dict[str, str]:
    error = server.ask("tools/call", {"name": tool, "arguments": arguments})["error"]
    return {"word": error["data"]["error"], "message": error["message"]}


@pytest.mark.parametrize("where", ["", "..", "../..", "users", "users/u1", "backups", "portals", "stores"])
def test_a_folder_of_another_servers_data_cannot_be_registered(data_dir: Path, another: Path, where: str) -> None:
    folder = another / where
    folder.mkdir(exist_ok=True)
    link = data_dir.parent / "link"
    link.symlink_to(folder, target_is_directory=True)
    before = tree(another)
    for named in (folder, link):
        done = run("stores", "add", "s", str(named), data_dir=data_dir)
        assert done.returncode == 1
        assert "data directory of Memory MCP" in done.stderr
    assert answer("stores", "list", data_dir=data_dir) == {"stores": []}
    assert tree(another) == before


@pytest.mark.parametrize("where", ["", "..", "portals", "stores", "users/u1"])
def test_a_folder_of_its_own_data_cannot_be_registered(data_dir: Path, where: str) -> None:
    folder = data_dir / where
    folder.mkdir(parents=True, exist_ok=True)
    done = run("stores", "add", "s", str(folder), data_dir=data_dir)
    assert (done.returncode, answer("stores", "list", data_dir=data_dir)) == (1, {"stores": []})
    assert "Register a folder" in done.stderr or "register that" in done.stderr


def test_a_folder_below_stores_can_be_registered(data_dir: Path, another: Path) -> None:
    (data_dir / "stores" / "old").mkdir(parents=True)
    assert run("stores", "add", "old", str(data_dir / "stores" / "old"), data_dir=data_dir).returncode == 0
    (another / "stores" / "theirs").mkdir(parents=True)
    assert run("stores", "add", "theirs", str(another / "stores" / "theirs"), data_dir=data_dir).returncode == 0
    assert len(answer("stores", "list", data_dir=data_dir)["stores"]) == 2


def test_a_home_that_holds_the_default_data_directory_is_refused_in_words(tmp_path: Path, data_dir: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    here = environment(HOME=str(home), XDG_DATA_HOME=str(home / ".local" / "share"))
    processes.run("users", "add", "zoe", env=here, check=True)
    assert data_directory.is_at(home / ".local" / "share" / "memory-mcp")
    for more in ((), ("--data-dir", str(data_dir))):
        done = processes.run("stores", "add", "s", "~", *more, env=here)
        assert done.returncode == 1
        assert "holds a data directory of Memory MCP" in done.stderr
        assert "Register a folder that does not hold it" in done.stderr


@pytest.mark.parametrize(
    "line", [".", "..", "portals", "stores", "link", "../home/apps/other", "../home/apps/other/users"]
)
def test_a_line_written_by_hand_is_refused_and_the_other_stores_work(
    tmp_path: Path, data_dir: Path, another: Path, line: str
) -> None:
    (data_dir / "portals").mkdir()
    (data_dir / "link").symlink_to(another, target_is_directory=True)
    (data_dir / "stores.yaml").write_text(f"bad: {line}\ngood: ../good\n")
    write(tmp_path, "good/a.md", "fine")
    server = Stdio.start(data_dir, *FAMILIES)
    for tool, more in {
        "add_memory": {"path": "a", "content": "c"},
        "list_memories": {},
        "cortex_get_recent_memories": {},
        "reindex_store": {},
        "prune_memories": {},
    }.items():
        refused = refusal(server, tool, store="bad", **more)
        assert refused["word"] == "unavailable"
        assert "data directory" in refused["message"]
        assert str(tmp_path) not in refused["message"]
    assert server.call("get_memory", store="good", path="a")["content"] == "fine"
    assert server.call("reindex_store", store="good")["memories"] == 1
    server.close()
    assert not [path for path in tmp_path.rglob("index.yaml") if path.parent.name != "good"]
    assert answer("stores", "remove", "bad", data_dir=data_dir)["name"] == "bad"


def test_doctor_reports_a_store_above_another_data_directory(data_dir: Path, another: Path) -> None:
    (data_dir / "stores.yaml").write_text("above: ../home/apps\n")
    [found] = [one for one in answer("doctor", data_dir=data_dir)["findings"] if one["check"] == "store"]
    assert found["state"] == "notice"
    assert "which is left out" in found["message"]
    assert str(another) in found["message"]


def test_a_data_directory_made_below_a_store_is_left_out(server: Stdio, data_dir: Path, another: Path) -> None:
    home = another.parent.parent
    aside = data_dir.parent / "aside"
    shutil.move(another, aside)
    write(home, "apps/mine.md", "mine")
    assert run("stores", "add", "s", str(home), data_dir=data_dir).returncode == 0
    shutil.move(aside, another)
    (home / "link").symlink_to("apps/other", target_is_directory=True)
    before = tree(another)

    assert server.call("list_memories", store="s", category="apps")["subcategories"] == []
    recent = server.call("cortex_get_recent_memories", store="s", limit=100)
    assert [one["path"] for one in recent["memories"]] == ["apps/mine"]
    assert server.call("reindex_store", store="s")["memories"] == 1
    for way in ("apps/other", "link"):
        private = f"{way}/users/u1/stores/s/private"
        assert refusal(server, "get_memory", store="s", path=private)["word"] == "not_found"
        assert refusal(server, "remove_memory", store="s", path=private)["word"] == "not_found"
        assert refusal(server, "list_memories", store="s", category=way)["word"] == "not_found"
        assert refusal(server, "add_memory", store="s", path=f"{way}/portals/x", content="c")["word"] == "not_found"
        moved = refusal(server, "move_memory", store="s", from_path="apps/mine", to_path=f"{way}/x")
        assert moved["word"] == "not_found"
    assert tree(another) == before


def test_a_category_may_have_the_name_of_a_file_of_a_data_directory(server: Stdio, data_dir: Path) -> None:
    home = data_dir.parent / "texts"
    write(home, "apps/server.db/mine.md", "mine")
    write(home, "apps/plain/server.db", "no database")
    write(home, "apps/plain/other.md", "other")
    assert run("stores", "add", "s", str(home), data_dir=data_dir).returncode == 0
    assert server.call("list_memories", store="s", category="apps")["subcategories"] == ["apps/plain", "apps/server.db"]
    recent = server.call("cortex_get_recent_memories", store="s", limit=100)
    assert {one["path"] for one in recent["memories"]} == {"apps/server.db/mine", "apps/plain/other"}


# Who may read it


def modes(folder: Path) -> set[str]:
    """The permissions of all files and folders below a folder, and of itself."""
    found = [path for path in (folder, *folder.rglob("*")) if not (path.is_symlink() or path.is_socket())]
    return {f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.stat().st_mode):o}" for path in found}


def started(data_dir: Path, *flags: str) -> str:
    """What a server writes to its log that is started and stopped."""
    return processes.run("--data-dir", data_dir, "--embedder", "none", *flags, check=True).stderr


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_everything_in_a_data_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    server = Stdio.start(folder, "--embedder", "none")
    server.call("add_memory", store="s", path="a/b", content="c")
    server.call("portal_write", portalUri="mem://of/people", table="t", data=[{"a": 1}])
    server.close()
    assert modes(folder) == {"folder 700", "file 600"}


@pytest.mark.usefixtures("usual_umask")
def test_an_open_data_directory_is_closed_at_the_next_start_and_logged_once(tmp_path: Path) -> None:
    folder, vault = tmp_path / "data", tmp_path / "vault"
    vault.mkdir()
    write(vault, "shared.md")
    run("stores", "add", "vault", str(vault), data_dir=folder)
    write(folder, "users/u1/stores/s/a.md")
    (folder / MARKER).unlink()  # an older version made it
    for path in (folder, folder / "stores.yaml", folder / "server.db"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    first, second = started(folder, *FAMILIES), started(folder, *FAMILIES)
    assert ("only its owner can" in first, "only its owner can" in second) == (True, False)
    assert modes(folder) == {"folder 700", "file 600"}
    assert modes(vault) == {"folder 755", "file 644"}


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("how", ["by its marker", "it held files before"])
def test_a_data_directory_that_a_person_shares_stays_open(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    if how == "it held files before":
        answer("add", "x", data_dir=folder)  # with notes.db, without which a folder of other files is refused
        for path in (folder / MARKER, folder / "server.db"):
            path.unlink()  # an older version made neither
        write(folder, "readme.txt")
    is_logged = "only its owner can" in started(folder, *FAMILIES)
    assert is_logged == (how == "by its marker")  # an empty folder is closed when it becomes a data directory
    if how == "by its marker":
        with (folder / MARKER).open("a") as marker:
            marker.write("shared\n")
    folder.chmod(0o755)
    assert "only its owner can" not in started(folder, *FAMILIES)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [one for one in answer("doctor", data_dir=folder)["findings"] if one["check"] == "permissions"] == []


@pytest.mark.usefixtures("usual_umask")
def test_an_adopted_graph_is_closed_to_others_as_doctor_wants_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    make_folder(folder, mine="active", old="archived")
    folder.chmod(0o755)
    assert "only its owner can" in started(folder, "--families", "graph", "--embedder", "none")
    assert modes(folder) == {"folder 700", "file 600"}
    assert not data_directory.is_shared(folder)
    assert [one for one in answer("doctor", data_dir=folder)["findings"] if one["check"] == "permissions"] == []
