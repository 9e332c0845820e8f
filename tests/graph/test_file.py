"""A project's file: the spec's schema to the letter, files of other programs, what a crash leaves."""

import re
import shutil
from pathlib import Path

import apsw
import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.graph.model import NewEntity
from memory_mcp.sessions import Connection, Session
from tests.wire import Stdio

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"graph"}))
HERE = Session("s", Connection(LOCAL_USER, "s"))

ENTITIES = """
CREATE TABLE entities (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),
    updated_at  TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at  TEXT NULL
)
"""
PROMISED = {
    *("entities", "observations", "relations", "entities_fts", "observations_fts"),
    *("entities_ai", "entities_ad", "entities_au", "observations_ai", "observations_ad", "observations_au"),
    *("idx_entities_active", "idx_entities_type", "idx_observations_entity"),
    *("idx_relations_from", "idx_relations_to", "idx_relations_type"),
}


def squeezed(sql: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"--.*", "", sql)).strip()


def file_of(app: App, folder: Path) -> Path:
    return folder / "projects" / f"{app.graph.create_project(ME, HERE, 'house', '').id}.db"


def test_the_tables_are_the_specs_to_the_letter(app: App, tmp_path: Path) -> None:
    connection = apsw.Connection(str(file_of(app, tmp_path)))
    made = {str(name): squeezed(str(sql)) for name, sql in connection.execute("SELECT name, sql FROM sqlite_master")}
    assert made.keys() >= PROMISED
    assert made["entities"] == squeezed(ENTITIES)
    assert connection.pragma("journal_mode") == "wal"


def test_the_indexes_of_words_stay_in_step(app: App, tmp_path: Path) -> None:
    path = file_of(app, tmp_path)
    for _ in range(3):
        app.graph.create_entities(ME, HERE, None, [NewEntity("x", "t", ("one", "two"))])
        app.graph.delete_entities(ME, HERE, None, ["x"])
    connection = apsw.Connection(str(path))
    for table in ("entities_fts", "observations_fts", "graph_words"):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 0)")
    assert connection.execute("SELECT count(*) FROM indexed").fetchall() == [(0,)]
    assert connection.execute("SELECT count(*) FROM entities").fetchall() == [(3,)]


def test_what_another_program_wrote_is_found_after_the_next_start(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.close()
    connection = apsw.Connection(str(tmp_path / "projects" / f"{id_}.db"))
    connection.execute("INSERT INTO entities (id, name, entity_type) VALUES ('e', 'Stranger', 'person')")
    connection.execute("INSERT INTO observations (id, entity_id, content) VALUES ('o', 'e', 'came by night')")
    connection.close()

    server = Stdio.start(tmp_path, "--families", "graph")
    found = server.call("search_nodes", query="night", project="house")["entities"]
    assert [one["name"] for one in found] == ["Stranger"]
    server.close()


@pytest.mark.parametrize(("before", "after"), [("projects", "archive"), ("archive", "projects")])
def test_a_crash_between_file_and_registry_is_mended_at_the_next_start(tmp_path: Path, before: str, after: str) -> None:
    server = Stdio.start(tmp_path, "--families", "graph")
    id_ = server.call("create_project", name="house")["id"]
    server.call("create_entities", entities=[{"name": "x", "entity_type": "t"}])
    if before == "archive":
        server.call("archive_project", name="house")
    server.close()
    (tmp_path / after).mkdir(exist_ok=True)
    shutil.move(tmp_path / before / f"{id_}.db", tmp_path / after / f"{id_}.db")

    server = Stdio.start(tmp_path, "--families", "graph")
    [project] = server.call("list_projects", status="all")["projects"]
    assert project["status"] == ("archived" if after == "archive" else "active")
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


def test_a_file_nobody_knows_is_removed_only_if_it_holds_nothing(tmp_path: Path) -> None:
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
