"""Data directories of another implementation of the graph's specification: adopted in place, after a copy."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.processes import run
from tests.wire import Stdio

SPEC = Path(__file__).parent / "spec"
OLD = "2025-01-02 03:04:05"  # as the specification's DEFAULT (datetime('now')) writes it
NFD, NFC = "Cafe\u0301", "Caf\u00e9"

ENTITIES = [
    # (id, name, type, created_at, deleted_at)
    ("ann", "Ann", "person", OLD, None),
    ("ann2", "Ann", "queen", "2025-02-01 00:00:00", None),
    ("ann0", "Ann", "person", "2024-01-01 00:00:00", OLD),
    ("bob", "Bob", "person", "2025-03-01T00:00:00+02:00", None),
    ("cafe", NFD, "place", OLD, None),
    ("gone", "Gone", "person", OLD, OLD),
    ("bad", b"Bro\xffken", "thing", OLD, None),
]
OBSERVATIONS = [
    # (entity, content, deleted_at)
    ("ann", "drinks tea", None),
    ("ann2", "drinks tea", None),
    ("ann2", "wears a crown", None),
    ("bob", "likes rain", None),
    ("bob", "likes rain", None),
    ("bob", "liked snow", OLD),
    ("gone", "was here", None),
]
RELATIONS = [
    ("ann", "bob", "knows"),
    ("ann2", "bob", "knows"),
    ("bob", "ann2", "serves"),
    ("bob", "gone", "misses"),
]


@pytest.fixture
def database_url() -> None:
    """All of this is about SQLite files."""


def make_project(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as other, other:
        other.executescript((SPEC / "project.sql").read_text(encoding="utf-8"))
        for id_, name, kind, created, deleted in ENTITIES:
            other.execute(
                "INSERT INTO entities VALUES (?, CAST(? AS TEXT), ?, ?, ?, ?)",
                (id_, name, kind, created, created, deleted),
            )
        for entity, content, deleted in OBSERVATIONS:
            other.execute(
                "INSERT INTO observations VALUES (?, ?, ?, ?, ?)", (str(uuid4()), entity, content, OLD, deleted)
            )
        for source, target, kind in RELATIONS:
            other.execute(
                "INSERT INTO relations VALUES (?, ?, ?, ?, ?, NULL)", (str(uuid4()), source, target, kind, OLD)
            )


def make_folder(folder: Path, **projects: str) -> dict[str, str]:
    """A data directory as the specification describes it, with projects by name and status; their ids, by name."""
    ids = {}
    with closing(sqlite3.connect(folder / "_meta.db")) as other, other:
        other.executescript((SPEC / "registry.sql").read_text(encoding="utf-8"))
        for name, status in projects.items():
            ids[name] = str(uuid4())
            file = f"{'projects' if status == 'active' else 'archive'}/{ids[name]}.db"
            other.execute(
                "INSERT INTO projects (id, name, db_path, status, created_at) VALUES (?, ?, ?, ?, ?)",
                (ids[name], name, file, status, OLD),
            )
            make_project(folder / file)
    return ids


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Stdio]:
    make_folder(tmp_path, **{"My Project/2": "active", NFD: "active", "old stuff": "archived", "": "active"})
    server = Stdio.start(tmp_path, "--families", "graph,recall", "--embedder", "none")
    yield server
    server.close()


def names(nodes: dict[str, Any]) -> list[str]:
    return [entity["name"] for entity in nodes["entities"]]


def test_every_tool_works_on_adopted_projects(server: Stdio, tmp_path: Path) -> None:
    listed = server.call("list_projects", status="all")["projects"]
    assert {one["name"]: one["status"] for one in listed} == {
        "My Project/2": "active",
        NFC: "active",
        "old stuff": "archived",
        "unnamed": "active",
    }
    assert {one["created_at"] for one in listed} == {"2025-01-02T03:04:05Z"}
    assert server.call("switch_project", name="unnamed")["project"]["name"] == "unnamed"
    assert server.call("switch_project", name="My Project/2")["project"]["name"] == "My Project/2"
    assert names(server.call("search_nodes", query="tea")) == ["Ann"]
    server.call("add_observations", observations=[{"entity_name": NFC, "contents": ["opens at nine"]}])
    assert names(server.call("search_nodes", query="nine")) == [NFC]
    server.call("create_entities", entities=[{"name": "Di", "entity_type": "person"}])
    server.call("create_relations", relations=[{"from": "Di", "to": "Ann", "relation_type": "knows"}])
    assert server.call("delete_observations", deletions=[{"entity_name": "Bob", "observations": ["likes rain"]}]) == {
        "deleted_count": 1
    }
    assert server.call("delete_entities", names=["Bob"]) == {"deleted_count": 1}
    server.call("archive_project", name="My Project/2")
    assert server.call("restore_project", name="My Project/2")["status"] == "active"
    assert names(server.call("read_graph", project="My Project/2")) == ["Ann", NFC, "Bro\ufffdken", "Di"]
    server.call("restore_project", name="old stuff")
    assert names(server.call("open_nodes", project="old stuff", names=["Ann"])) == ["Ann"]
    server.call("delete_project", name="old stuff")
    assert len(list((tmp_path / "projects").glob("*.db"))) == 3


def test_duplicates_are_merged_and_nothing_is_lost(server: Stdio) -> None:
    [ann] = server.call("open_nodes", names=["Ann"], project=NFC)["entities"]
    assert ann["id"] == "ann"
    assert ann["entity_type"] == "person"
    assert ann["observations"] == ["drinks tea", "wears a crown", "entity_type: queen"]
    assert ann["created_at"] == "2025-01-02T03:04:05Z"
    read = server.call("read_graph", project=NFC)
    assert names(read) == ["Ann", "Bob", NFC, "Bro\ufffdken"]
    assert {one["name"]: one["created_at"] for one in read["entities"]}["Bob"] == "2025-02-28T22:00:00Z"
    assert [(one["from"], one["relation_type"], one["to"]) for one in read["relations"]] == [
        ("Ann", "knows", "Bob"),
        ("Bob", "serves", "Ann"),
    ]
    assert {one["created_at"] for one in read["relations"]} == {"2025-01-02T03:04:05Z"}
    assert names(server.call("search_nodes", query="crown", project=NFC)) == ["Ann"]
    assert names(server.call("search_nodes", query='"likes rain"', project=NFC)) == ["Bob"]
    assert server.call("search_nodes", query="here", project=NFC)["entities"] == []


def test_a_hit_of_an_adopted_project_can_be_opened(server: Stdio, tmp_path: Path) -> None:
    hits = server.call("recall_memories", query="crown")["hits"]
    [ref] = [hit["ref"] for hit in hits if "My" in hit["ref"]]
    shown = run("show", ref, "--data-dir", tmp_path)
    assert "wears a crown" in shown.stdout, shown.stderr


def test_each_file_is_copied_once_and_adopted_once(tmp_path: Path) -> None:
    [id_] = make_folder(tmp_path, house="active").values()
    for _ in range(2):
        server = Stdio.start(tmp_path, "--families", "graph")
        assert names(server.call("search_nodes", query="tea", project="house")) == ["Ann"]
        server.close()
    [registry] = (tmp_path / "backups").glob("_meta-v0-*.db")
    [project] = (tmp_path / "backups").glob(f"{id_}-v0-*.db")
    with closing(sqlite3.connect(project)) as copy, closing(sqlite3.connect(registry)) as projects:
        assert copy.execute("SELECT count(*) FROM entities WHERE name = 'Ann'").fetchone() == (3,)
        assert projects.execute("SELECT name FROM projects").fetchall() == [("house",)]
    done = run("doctor", "--data-dir", tmp_path)
    assert done.stdout.count("problem") == done.stdout.count("problem permissions") + 1, done.stdout


def test_the_other_program_can_go_on_writing(tmp_path: Path) -> None:
    [id_] = make_folder(tmp_path, house="active").values()
    server = Stdio.start(tmp_path, "--families", "graph")
    server.call("switch_project", name="house")
    with closing(sqlite3.connect(tmp_path / "projects" / f"{id_}.db", isolation_level=None)) as other:
        other.execute("INSERT INTO entities (id, name, entity_type) VALUES ('e', ?, 'guest')", ("Zoe\u0301",))
        other.execute(
            "INSERT INTO relations (id, from_entity, to_entity, relation_type) VALUES ('r', 'e', 'bob', 'sees')"
        )
    [zoe] = server.call("open_nodes", names=["Zo\u00e9"])["entities"]
    assert (zoe["created_at"][10], zoe["created_at"][-1]) == ("T", "Z")
    with closing(sqlite3.connect(tmp_path / "_meta.db", isolation_level=None)) as other:
        other.execute("UPDATE projects SET description = 'theirs'")
    assert server.call("list_projects")["projects"][0]["description"] == "theirs"
    server.close()


def test_ids_and_paths_of_another_shape_become_ours(tmp_path: Path) -> None:
    make_project(tmp_path / "projects" / "alpha.db")
    make_project(tmp_path / "projects" / "second.db")
    with closing(sqlite3.connect(tmp_path / "_meta.db")) as other, other:
        other.executescript((SPEC / "registry.sql").read_text(encoding="utf-8"))
        rows = [
            ("alpha", "one", "projects/alpha.db"),
            ("../../etc", "two", "projects/second.db"),
            ("x", "3", "../x.db"),
        ]
        other.executemany("INSERT INTO projects (id, name, db_path) VALUES (?, ?, ?)", rows)
    server = Stdio.start(tmp_path, "--families", "graph")
    for name in ("one", "two"):
        assert names(server.call("search_nodes", query="tea", project=name)) == ["Ann"]
    lost = server.ask("tools/call", {"name": "read_graph", "arguments": {"project": "3"}})["result"]
    assert lost["structuredContent"]["error"] == "not_found"
    server.call("archive_project", name="two")
    assert len(list((tmp_path / "archive").glob("*.db"))) == 1
    server.close()


def test_an_export_of_adopted_projects_can_be_imported_elsewhere(tmp_path: Path) -> None:
    source, target, export = tmp_path / "source", tmp_path / "target", tmp_path / "export"
    source.mkdir()
    make_folder(source, **{"../My Project": "active", ".. My Project": "archived", "house": "active"})
    run("export", export, "--data-dir", source, check=True)
    assert {path.parent for path in export.rglob("*.jsonl") if "project" in path.name.lower()} == {export / "graph"}
    taken = run("import", "memory-mcp", export, "--json", "--data-dir", target, check=True)
    assert json.loads(taken.stdout)["left_out"] == []
    server = Stdio.start(target, "--families", "graph")
    listed = server.call("list_projects", status="all")["projects"]
    assert {one["name"] for one in listed} == {"../My Project", ".. My Project", "house"}
    assert names(server.call("search_nodes", query="crown", project="../My Project")) == ["Ann"]
    server.close()
