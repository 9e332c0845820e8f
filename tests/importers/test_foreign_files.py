"""Files that other tools made are imported completely, with their dates, and once."""

from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.families.graph.model import Entity, Relation
from memory_mcp.families.notes.model import CreatedCursor, Filter, Note, NoteQuery
from memory_mcp.importers.model import ForeignFormat
from memory_mcp.text.time_spans import Span
from tests.importers.conftest import ME, move, outcome
from tests.importers.foreign_tools import FOREIGN


def notes(app: App) -> dict[str, Note]:
    """Every note, by its text."""
    ids = [id_ for _, id_, _ in app.notes.reader.notes_after(ME, CreatedCursor(), 1000)]
    return {note.content: note for note in (app.notes.reader.read(ME, id_) for id_ in ids)}


@pytest.mark.parametrize("format_", list(FOREIGN))
def test_everything_is_imported_once_as_a_dry_run_predicts(app: App, foreign: Path, format_: ForeignFormat) -> None:
    tool = FOREIGN[format_]
    path = foreign / tool.format / tool.made
    before = {file: file.read_bytes() for file in foreign.rglob("*") if file.is_file()}
    count = tool.expected

    assert outcome(move(app, format_, path, dry_run=True)) == (count, count, 0, 0)
    assert outcome(move(app, format_, path, dry_run=True)) == (count, count, 0, 0)
    progress: list[tuple[int, int | None]] = []
    imported = move(app, format_, path, lambda what, done, total: progress.append((done, total)))
    assert outcome(imported) == (count, count, 0, 0)
    assert progress == sorted(progress)
    done, total = progress[-1]
    assert total is not None
    assert total - count < done <= total  # a database counts whole bytes for each row
    assert outcome(move(app, format_, path, dry_run=True)) == (count, 0, count, 0)
    assert outcome(move(app, format_, path)) == (count, 0, count, 0)
    assert {file: file.read_bytes() for file in foreign.rglob("*") if file.is_file()} == before


def test_server_memory_becomes_a_graph(app: App, foreign: Path) -> None:
    report = move(app, "server-memory", foreign / "server-memory" / "memory.jsonl")
    items = list(app.graph.everything(ME, "memory"))
    known = {item.name: item.observations for item in items if isinstance(item, Entity)}
    assert known == {"Ann": ["likes tea", "spielt Schach – gern"], "Postgres": ["runs on port 5433"]}
    assert [item.relation_type for item in items if isinstance(item, Relation)] == ["administers"]
    assert report.details == {"entities": 2, "observations": 3, "relations": 1}
    assert [(problem.where, problem.outcome) for problem in report.problems] == [("1 relations", "left_out")]


def test_mcp_memory_service_becomes_notes_with_their_dates_tags_and_metadata(app: App, foreign: Path) -> None:
    report = move(app, "mcp-memory-service", foreign / "mcp-memory-service" / "sqlite_vec.db")
    found = notes(app)
    deploys = found["Deploys go out on Tuesdays."]
    assert deploys.created_at == "2023-11-14T22:13:20.500Z"
    assert deploys.tags[:2] == ["ops", "deploy"]
    assert deploys.source == "import"
    assert deploys.metadata["type"] == "decision"
    assert deploys.metadata["source"] == "chat"
    assert deploys.metadata["imported_from"]["format"] == "mcp-memory-service"
    assert "untagged" not in found["Ännchen mag grünen Tee ☕"].tags
    assert found["The staging key was rotated."].metadata["ticket"] == {"id": 7}
    assert "This one is deleted again." not in found
    assert [problem.why for problem in report.problems] == ["It is deleted there."]
    of_2023 = NoteQuery("", Filter(created=Span(before="2024-01-01T00:00:00.000Z")))
    assert [hit.title for hit in app.notes.reader.search(ME, of_2023).memories] == ["Deploys go out on Tuesdays."]
    assert app.notes.reader.search(ME, NoteQuery("staging key")).memories


def test_mem0_becomes_notes_with_their_owner(app: App, foreign: Path) -> None:
    move(app, "mem0", foreign / "mem0" / "mem0.json")
    found = notes(app)
    works = found["Dev works at TechCorp as a senior engineer"]
    assert works.metadata["user_id"] == "dev"
    assert works.metadata["type"] == "professional"
    assert works.tags[0] == "work"
    assert works.created_at.startswith("2026-11-15T16:09:56")
    assert found["The planner agent books meetings before noon"].metadata["agent_id"] == "planner"


def test_files_of_the_memory_tool_become_memories_at_their_paths(app: App, foreign: Path) -> None:
    move(app, "anthropic-memory", foreign / "anthropic-memory" / "memory")
    xml = app.stores.get(ME, "moved", "preferences.xml", include_expired=False)
    assert xml.content == "<preferences>\n  <language>Python</language>\n</preferences>"
    assert xml.metadata.updated_at
    plan = app.stores.get(ME, "moved", "notes/plan", include_expired=False)
    assert plan.content == "# Plan\n\n- test\n- ship"
    listed = app.stores.list_category(ME, "moved", "notes", 0, include_expired=False)
    assert [one.path for one in listed.memories] == ["notes/meeting.txt", "notes/plan"]


def test_files_of_basic_memory_keep_their_front_matter(app: App, foreign: Path, tmp_path: Path) -> None:
    source = foreign / "basic-memory" / "basic-memory"
    move(app, "basic-memory", source)
    for file in source.rglob("*.md"):
        moved = (tmp_path / "stores" / "moved" / file.relative_to(source)).read_text(encoding="utf-8")
        for line in file.read_text(encoding="utf-8").splitlines():
            assert line in moved.splitlines()
    coffee = app.stores.get(ME, "moved", "coffee/Coffee Brewing", include_expired=False)
    assert coffee.metadata.tags == ["coffee", "brewing"]
    assert coffee.metadata.created_at
