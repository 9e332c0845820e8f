"""A project's file: the spec's schema to the letter, files of other programs, what a crash leaves."""

import re
import shutil
import sqlite3
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import apsw
import pytest

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.sqlite import Database, database
from memory_mcp.errors import Unavailable
from memory_mcp.families.graph import files, storage
from memory_mcp.families.graph.files import GraphFolder
from memory_mcp.families.graph.model import NewEntity
from memory_mcp.families.graph.schema import PROJECT
from memory_mcp.services.sessions import Connection, Session
from tests.events import TIMEOUT_S
from tests.wire import Stdio

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"graph"}))
HERE = Session("s", Connection(LOCAL_USER, "s"))

SPEC = Path(__file__).parent / "spec"  # its SQL, copied


@pytest.fixture
def database_url() -> None:
    """All of this is about SQLite files."""


def squeezed(sql: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"--.*", "", sql)).strip()


def file_of(app: App, folder: Path) -> Path:
    return folder / "projects" / f"{app.graph.create_project(ME, HERE, 'house', '').id}.db"


def objects(connection: apsw.Connection) -> dict[str, str]:
    """The SQL of everything in a file, by name."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    connection.close()
    return {str(name): squeezed(str(sql)) for name, sql in rows}


@pytest.mark.parametrize(("kind", "promised"), [("project", 17), ("registry", 3)])
def test_the_tables_are_the_specs_to_the_letter(app: App, tmp_path: Path, kind: str, promised: int) -> None:
    path = file_of(app, tmp_path) if kind == "project" else tmp_path / "_meta.db"
    specified = apsw.Connection(":memory:")
    specified.execute((SPEC / f"{kind}.sql").read_text(encoding="utf-8"))
    expected = objects(specified)
    named = [name for name in expected if "autoindex" not in name and not re.search(r"_fts_\w+$", name)]
    assert len(named) == promised
    assert objects(apsw.Connection(str(path))).items() >= expected.items()
    assert apsw.Connection(str(path)).pragma("journal_mode") == "wal"


def test_the_indexes_of_words_stay_in_step(app: App, tmp_path: Path) -> None:
    path = file_of(app, tmp_path)
    for _ in range(3):
        app.graph.create_entities(ME, HERE, None, [NewEntity("x", "t", ("one", "two"))])
        app.graph.delete_entities(ME, HERE, None, ["x"])
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)  # the index may be merged just now
    for table in ("entities_fts", "observations_fts", "graph_words"):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 0)")
    assert connection.execute("SELECT count(*) FROM indexed").fetchall() == [(0,)]
    assert connection.execute("SELECT count(*) FROM entities").fetchall() == [(3,)]


PEOPLE = [("Ann", "tea", "paper"), ("Bob", "milk", "wood"), ("Cy", "water", "iron"), ("Di", "juice", "glass")]
SEARCHED = ["tea", "coffee", "paper", "milk", "wood", "bob", "robert", "person", "cy", "water", "night", "stranger"]


def found(server: Stdio, words: Iterable[str]) -> dict[str, list[str]]:
    """The names of what each word finds, where it finds anything."""
    answers = {word: server.call("search_nodes", query=word, project="house")["entities"] for word in words}
    return {word: [one["name"] for one in entities] for word, entities in answers.items() if entities}


@pytest.mark.parametrize("when", ["at once", "after the next start"])
@pytest.mark.parametrize("foreign_keys", [0, 1])
def test_rows_of_a_program_with_an_old_sqlite_are_found(tmp_path: Path, when: str, foreign_keys: int) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    new = [{"name": name, "entity_type": "t", "observations": list(observations)} for name, *observations in PEOPLE]
    server.call("create_entities", entities=new)
    if when != "at once":
        server.close()
    other = sqlite3.connect(tmp_path / "projects" / f"{id_}.db", isolation_level=None)
    # Whatever SQLite this Python has: what needs 3.43 is in no trigger.
    assert not other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%_words%'").fetchall()
    other.execute(f"PRAGMA foreign_keys = {foreign_keys}")
    other.execute("INSERT INTO entities (id, name, entity_type) VALUES ('e', 'Stranger', 'guest')")
    other.execute("INSERT INTO observations (id, entity_id, content) VALUES ('o', 'e', 'came by night')")
    other.execute("UPDATE observations SET content = 'coffee' WHERE content = 'tea'")
    other.execute("DELETE FROM observations WHERE content = 'milk'")
    other.execute("UPDATE entities SET name = 'Robert', entity_type = 'person' WHERE name = 'Bob'")
    other.execute("DELETE FROM entities WHERE name = 'Cy'")
    other.execute(
        "REPLACE INTO entities (id, name, entity_type) VALUES ('new', 'Di', 'queen')"
    )  # no trigger sees it go
    if when != "at once":
        server = Stdio.start(tmp_path, "--families", "graph")

    assert found(server, [*SEARCHED, "juice", "queen", "di"]) == {
        "coffee": ["Ann"],
        "paper": ["Ann"],
        "wood": ["Robert"],
        "robert": ["Robert"],
        "person": ["Robert"],
        "night": ["Stranger"],
        "stranger": ["Stranger"],
        "queen": ["Di"],
        "di": ["Di"],
    }
    other.execute("UPDATE entities SET deleted_at = datetime('now') WHERE name = 'Stranger'")  # and not its observation
    assert found(server, ["night", "stranger"]) == {}
    other.execute("UPDATE entities SET deleted_at = NULL WHERE name = 'Stranger'")
    assert found(server, ["night", "stranger"]) == {"night": ["Stranger"], "stranger": ["Stranger"]}
    other.close()
    server.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.close()
    path = tmp_path / "projects" / f"{id_}.db"
    path.unlink()
    old = apsw.Connection(str(path))
    for migration in PROJECT.migrations[:version]:
        old.execute(migration.sql).fetchall()
    old.pragma("user_version", version)
    old.pragma("application_id", PROJECT.application_id)
    old.execute("INSERT INTO entities (id, name, entity_type) VALUES ('e', 'Ann', 't')")
    old.execute("INSERT INTO indexed (number, entity_id) VALUES (7, 'e')")
    old.execute("INSERT INTO graph_words (rowid, name, entity_type, content, parts) VALUES (7, 'Ann', 't', '', '')")
    old.execute("INSERT INTO observations (id, entity_id, content) VALUES ('o', 'e', 'tea')")
    old.close()

    server = Stdio.start(tmp_path, "--families", "graph")
    assert found(server, ["ann", "tea"]) == {"ann": ["Ann"], "tea": ["Ann"]}
    server.call("delete_entities", project="house", names=["Ann"])
    assert found(server, ["ann", "tea"]) == {}
    server.close()
    assert len(list((tmp_path / "backups").glob(f"{id_}-v{version}-*.db"))) == 1


@pytest.mark.parametrize(("before", "after"), [("projects", "archive"), ("archive", "projects")])
def test_a_crash_between_file_and_registry_is_repaired_at_the_next_start(
    tmp_path: Path, before: str, after: str
) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.call("create_entities", entities=[{"name": "x", "entity_type": "t"}])
    if before == "archive":
        server.call("archive_project", name="house")
    server.close()
    (tmp_path / after).mkdir(exist_ok=True)
    shutil.move(tmp_path / before / f"{id_}.db", tmp_path / after / f"{id_}.db")
    registry = apsw.Connection(str(tmp_path / "_meta.db"))
    registry.execute("INSERT INTO active_projects VALUES ('some session', ?)", (id_,))

    server = Stdio.start(tmp_path, "--families", "graph")
    [project] = server.call("list_projects", status="all")["projects"]
    assert project["status"] == ("archived" if after == "archive" else "active")
    active = registry.execute("SELECT count(*) FROM active_projects").fetchall()
    assert active == [(0 if after == "archive" else 1,)]
    registry.close()
    if after == "archive":
        server.call("restore_project", name="house")
    assert len(server.call("read_graph", project="house")["entities"]) == 1
    server.close()


def test_a_crash_in_the_middle_of_deleting_is_finished_at_the_next_start(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.close()
    connection = apsw.Connection(str(tmp_path / "_meta.db"))
    connection.execute("DELETE FROM projects")
    connection.close()
    (tmp_path / "locks" / f"{id_}.deleted").touch()

    server = Stdio.start(tmp_path, "--families", "graph")
    assert server.call("list_projects", status="all")["projects"] == []
    assert list((tmp_path / "projects").iterdir()) == []
    server.close()


def test_a_file_that_was_copied_and_not_yet_moved_stays_where_the_registry_says(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.call("create_entities", entities=[{"name": "x", "entity_type": "t"}])
    server.close()
    (tmp_path / "archive").mkdir()
    shutil.copy(tmp_path / "projects" / f"{id_}.db", tmp_path / "archive" / f"{id_}.db")

    server = Stdio.start(tmp_path, "--families", "graph")
    assert len(server.call("read_graph", project="house")["entities"]) == 1
    assert list((tmp_path / "archive").iterdir()) == []
    server.close()


def test_an_unknown_file_is_removed_only_if_it_is_empty(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    blank, full = (server.call("create_project", name=name)["id"] for name in ("blank", "full"))
    server.call("create_entities", entities=[{"name": "x", "entity_type": "t"}])
    server.close()
    connection = apsw.Connection(str(tmp_path / "_meta.db"))
    connection.execute("DELETE FROM projects")
    connection.close()

    Stdio.start(tmp_path, "--families", "graph").close()
    left = {path.stem for path in (tmp_path / "projects").glob("*.db")}
    assert (blank in left, full in left) == (False, True)


def test_files_of_other_programs_stay(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.close()
    registry = apsw.Connection(str(tmp_path / "_meta.db"))
    registry.execute("DELETE FROM projects")
    registry.close()
    (tmp_path / "locks" / f"{id_}.deleted").touch()
    (tmp_path / "archive").mkdir()
    foreign = [
        tmp_path / "projects" / f"{uuid4()}.db",  # with tables of its own
        tmp_path / "archive" / "bookkeeping.db",
        tmp_path / "projects" / "empty.db",
        tmp_path / "archive" / "download.db.part",
        tmp_path / "projects" / f"{id_}.db.bak",
    ]
    for path in foreign:
        path.touch()
    for path in foreign[:2]:
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE accounts (balance); INSERT INTO accounts VALUES (100)")
        connection.close()

    Stdio.start(tmp_path, "--families", "graph").close()
    assert {path for kind in ("projects", "archive") for path in (tmp_path / kind).iterdir()} == set(foreign)
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_repair_that_fails_is_tried_again_and_others_wait_for_it(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = replace(ME, user="stranger")
    repaired: list[GraphFolder] = []
    begun, go_on = threading.Event(), threading.Event()

    def failing(_: GraphFolder) -> None:
        raise Unavailable("The memory is busy.")

    def slow(graph_folder: GraphFolder) -> None:
        begun.set()
        assert go_on.wait(TIMEOUT_S)
        repaired.append(graph_folder)

    monkeypatch.setattr(files, "repair", failing)
    with pytest.raises(Unavailable):
        app.graph.projects(stranger, None)
    monkeypatch.setattr(files, "repair", slow)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(app.graph.projects, stranger, None)
        assert begun.wait(TIMEOUT_S)
        second = threads.submit(app.graph.projects, stranger, None)
        assert not wait([second], timeout=0.2).done
        go_on.set()
        assert first.result().projects == second.result().projects == []
    assert len(repaired) == 1


def test_a_project_is_made_and_worked_in_at_once_or_not_at_all(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(storage, "set_active", failing)
    with pytest.raises(Unavailable):
        app.graph.create_project(ME, HERE, "house", "")
    assert app.graph.projects(ME, None).projects == []


def test_a_project_whose_file_is_in_use_can_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT_S", 0.05)
    chosen = settings.load({"data_dir": tmp_path, "families": "graph"}, environ={}).settings
    with open_app(chosen) as app:
        path = file_of(app, tmp_path)
        with FileLock(tmp_path / "locks" / f"{path.stem}.lock").acquire():
            message = app.graph.delete_project(ME, "house").message
        assert "is deleted" in message
        assert "next start" in message
        assert app.graph.projects(ME, None).projects == []
        assert path.exists()
    with open_app(chosen):
        pass
    assert not path.exists()
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_project_can_be_deleted_where_a_backup_brought_no_locks(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    server.call("create_project", name="house")
    server.close()
    shutil.rmtree(tmp_path / "locks")

    server = Stdio.start(tmp_path, "--families", "graph")
    server.call("delete_project", name="house")
    assert list((tmp_path / "projects").iterdir()) == []
    server.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_move_that_fails_ends_where_the_file_lies(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    path = file_of(app, tmp_path)
    app.graph.create_entities(ME, HERE, None, [NewEntity("x", "t")])
    move = Database.move

    def failing(self: Database, target: Path) -> None:
        if when == "after":
            move(self, target)
        raise Unavailable("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr(Database, "move", failing)
        if when == "before":
            with pytest.raises(Unavailable):
                app.graph.archive_project(ME, "house")
        else:
            assert app.graph.archive_project(ME, "house").project == app.graph.projects(ME, "archived").projects[0]
    assert path.exists() == (when == "before")
    if when == "after":
        app.graph.restore_project(ME, "house")
    assert len(app.graph.read_graph(ME, HERE, "house", 0).entities) == 1


def test_after_writes_the_index_of_words_is_merged(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = threading.Event()
    monkeypatch.setattr(app.graph.index_merge, "merge", merged.set)
    app.graph.create_project(ME, HERE, "house", "")
    app.graph.create_entities(ME, HERE, None, [NewEntity("x", "t")])
    assert merged.wait(TIMEOUT_S)


def test_a_process_that_has_a_project_open_follows_it_through_archive_and_restore(tmp_path: Path) -> None:
    one, two = (Stdio.start(tmp_path, "--families", "graph") for _ in range(2))
    one.call("create_project", name="house")
    two.call("create_entities", project="house", entities=[{"name": "one", "entity_type": "t"}])
    one.call("archive_project", name="house")
    one.call("restore_project", name="house")
    two.call("create_entities", project="house", entities=[{"name": "two", "entity_type": "t"}])
    one.call("create_entities", project="house", entities=[{"name": "three", "entity_type": "t"}])

    for server in (one, two):
        read = server.call("read_graph", project="house")["entities"]
        assert [entity["name"] for entity in read] == ["one", "two", "three"]
    two.kill()
    assert len(one.call("read_graph", project="house")["entities"]) == 3
    one.close()
