"""Undoing whole imports, of each family; and folders of markdown."""

import json
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.errors import Conflict
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.families.notes.model import Author, Revision
from memory_mcp.families.stores.model import FileChange
from memory_mcp.importers.model import FORMATS
from tests.importers.conftest import INTO, ME, move, outcome
from tests.importers.foreign_tools import FOREIGN
from tests.importers.test_foreign_files import notes
from tests.importers.test_rules import kept_json, memories


def stored(app: App) -> list[str]:
    """Every note, file, entity and relation."""
    graph = [repr(one) for project in app.graph.every_project(ME) for one in app.graph.everything_of(ME, project)]
    return [*notes(app), *files(app), *graph]


def files(app: App) -> list[str]:
    folder = next((store.folder for store in app.stores.all(ME) if store.name == INTO["stores"]), None)
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.md")) if folder else []


def last_import(app: App) -> str:
    return app.importers.history(ME).all()[0].id


@pytest.mark.parametrize("format_", FOREIGN)
def test_an_undone_import_leaves_nothing_and_can_be_repeated(app: App, foreign: Path, format_: str) -> None:
    tool = FOREIGN[format_]
    before = stored(app)
    first = move(app, format_, foreign / format_ / tool.made)  # type: ignore[arg-type]  # a format by its name
    assert len(stored(app)) > len(before)
    undone = app.importers.undo(ME, last_import(app))
    assert (undone.state, undone.removed, undone.kept) == ("undone", first.imported, 0)
    assert stored(app) == before
    assert app.importers.history(ME).get(undone.id) == undone
    with pytest.raises(Conflict):
        app.importers.undo(ME, undone.id)
    again = move(app, format_, foreign / format_ / tool.made)  # type: ignore[arg-type]
    assert (FORMATS[tool.format], outcome(again)) == (first.family, outcome(first))  # type: ignore[index]


def test_an_undo_keeps_what_was_changed_since(app: App, foreign: Path, tmp_path: Path) -> None:
    file = kept_json(tmp_path / "mem0.json", memories("one", "two", "three"))
    move(app, "mem0", file)
    here = notes(app)
    app.notes.writer.update(ME, Author(), here["two"].id, Revision(content="two, as I say"))
    app.notes.writer.delete(ME, here["three"].id, soft=False)
    undone = app.importers.undo(ME, last_import(app))
    assert (undone.removed, undone.kept) == (1, 1)
    assert set(notes(app)) == {"two, as I say"}

    move(app, "basic-memory", foreign / "basic-memory" / "basic-memory")
    app.stores.update(ME, "moved", "coffee/Coffee Brewing", FileChange(content="Mine now"))
    assert app.importers.undo(ME, last_import(app)).kept == 1
    assert files(app) == ["coffee/Coffee Brewing.md"]


def test_an_undone_update_has_its_former_text_and_is_updated_again(app: App, tmp_path: Path) -> None:
    file = kept_json(tmp_path / "mem0.json", memories("one"))
    move(app, "mem0", file)
    assert move(app, "mem0", kept_json(file, memories("one!"))).updated == 1
    app.importers.undo(ME, last_import(app))
    assert set(notes(app)) == {"one"}
    assert move(app, "mem0", file).kept == 1  # its note was changed here: by the undo


def test_an_undone_graph_keeps_older_and_newer_parts(app: App, tmp_path: Path) -> None:
    app.graph.add_graph(ME, "memory", [NewEntity("Ann", "person", ("is old",))], [])
    file = tmp_path / "memory.jsonl"
    lines = [
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["is new"]},
        {"type": "entity", "name": "Bob", "entityType": "person", "observations": ["leads"]},
        {"type": "entity", "name": "Cleo", "entityType": "person", "observations": []},
        {"type": "relation", "from": "Ann", "to": "Bob", "relationType": "knows"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    move(app, "server-memory", file)
    app.graph.add_graph(ME, "memory", [], [NamedRelation("Cleo", "Ann", "calls")])
    undone = app.importers.undo(ME, last_import(app))
    assert (undone.removed, undone.kept) == (2, 1)  # Bob and a relation; Cleo has a relation by now
    ann, relations = app.graph.entity(ME, "memory", "Ann")
    assert (ann.observations, [one.relation_type for one in relations]) == (["is old"], ["calls"])
    assert app.graph.entity(ME, "memory", "Cleo")[0].name == "Cleo"


def test_a_vault_of_obsidian_becomes_linked_notes(app: App, tmp_path: Path) -> None:
    vault = tmp_path / "Vault"
    (vault / "People").mkdir(parents=True)
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "app.json").write_text("{}")
    (vault / "picture.png").write_bytes(b"png")
    (vault / "Plan.md").write_text("---\ntags: [work]\ncreated: 2024-05-01\nmood: calm\n---\nAsk [[Ann]]. #later\n")
    (vault / "People" / "Ann.md").write_text("Ann leads the team.\n")
    report = move(app, "markdown", vault)
    assert (outcome(report), report.left_out) == ((2, 2, 0, 0), 1)
    here = {note.title: note for note in notes(app).values()}
    plan = app.notes.reader.read(ME, here["Plan"].id, include_links=True)
    assert (plan.created_at[:10], plan.metadata["mood"], here["Ann"].folder) == ("2024-05-01", "calm", "People")
    assert {"work", "later"} <= set(plan.tags)
    assert plan.links is not None
    assert [link.id for link in plan.links.outgoing] == [here["Ann"].id]
    (vault / "Plan.md").write_text("Ask [[Ann]] tomorrow.\n")
    assert move(app, "markdown", vault).updated == 1
