"""Which projects' files a process has open."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.sqlite import Database
from memory_mcp.families.graph import files
from memory_mcp.families.graph.files import OpenFiles
from memory_mcp.families.graph.model import Entity, NewEntity
from memory_mcp.families.graph.schema import PROJECT
from memory_mcp.services.sessions import Connection, Session
from tests.events import TIMEOUT_S

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"graph"}))
HERE = Session("s", Connection(LOCAL_USER, "s"))
FEW = 3


@pytest.fixture
def database_url() -> None:
    """All of this is about SQLite files."""


@pytest.fixture
def projects(app: App, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of more projects than may be open."""
    monkeypatch.setattr(files, "MAX_OPEN_FILES", FEW)
    names = [f"p{number}" for number in range(10)]
    for name in names:
        app.graph.create_project(ME, HERE, name, "")
        app.graph.create_entities(ME, HERE, None, [NewEntity(f"{number} in {name}", "t") for number in range(3)])
    return names


def really_open() -> set[str]:
    """The projects of which this process has a file open."""
    links = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    targets = [fd.readlink() for fd in links if fd.is_symlink()]
    return {path.name.partition(".")[0] for path in targets if path.parent.name == "projects"}


def read(app: App, name: str) -> list[str]:
    return [entity.name for entity in app.graph.read_graph(ME, HERE, name, 0).entities]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_no_more_files_are_open_than_may_be_and_all_are_of_use(app: App, projects: list[str]) -> None:
    assert len(really_open()) == FEW
    for name in projects:
        assert read(app, name) == [f"{number} in {name}" for number in range(3)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: read(app, name), projects * 10))
    app.graph.projects(ME, None)
    read(app, projects[0])
    assert len(really_open()) <= FEW


def test_a_read_goes_on_when_its_file_is_closed(app: App, projects: list[str]) -> None:
    reading = app.graph.everything(ME, projects[0])
    first = next(reading)
    for name in projects[1:]:
        read(app, name)
    assert [item.name for item in [first, *reading] if isinstance(item, Entity)] == read(app, projects[0])


def test_a_closed_file_that_went_away_and_came_back_opens_again(app: App, projects: list[str]) -> None:
    read(app, projects[0])
    for name in projects[1:]:
        read(app, name)
    app.graph.archive_project(ME, projects[0])
    app.graph.restore_project(ME, projects[0])
    app.graph.create_entities(ME, HERE, projects[0], [NewEntity("more", "t")])
    assert len(read(app, projects[0])) == 4


def test_opening_one_does_not_wait_for_a_write_to_another(app: App, projects: list[str], tmp_path: Path) -> None:
    ids = {project.name: project.id for project in app.graph.projects(ME, None).projects}
    read(app, projects[0])
    with FileLock(tmp_path / "locks" / f"{ids[projects[0]]}.lock").acquire(), ThreadPoolExecutor() as threads:
        for name in projects[1:]:
            threads.submit(read, app, name).result(timeout=TIMEOUT_S)
    assert len(read(app, projects[0])) == 3


def test_a_file_is_opened_by_one_at_a_time_also_while_it_is_forgotten(tmp_path: Path) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()
    at_once: list[int] = []
    opening: list[Path] = []

    def open_file(path: Path, lock: Path, make: bool) -> Database:
        opening.append(path)
        at_once.append(len(opening))
        begun.release()
        assert go_on.wait(TIMEOUT_S)
        opening.remove(path)
        return Database(path, PROJECT, backups=tmp_path, lock=lock)

    opened = OpenFiles(open_file)
    path, lock = tmp_path / "x.db", tmp_path / "x.lock"
    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(opened.get, path, lock)]
        assert begun.acquire(timeout=TIMEOUT_S)
        opened.detach(path)
        waiting.append(threads.submit(opened.get, path, lock))
        begun.acquire(timeout=0.2)
        go_on.set()
    assert at_once == [1]
    assert waiting[0].result() is waiting[1].result()
    opened.close()
