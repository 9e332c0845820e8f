"""Second imports, refusals, and dry runs that write nothing."""

import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_mcp.app import App
from memory_mcp.errors import Conflict, Invalid
from memory_mcp.families.notes.model import Author, Revision
from memory_mcp.importers.model import ForeignFormat
from memory_mcp.importers.readers import detect
from memory_mcp.maintenance.exports import Export
from memory_mcp.maintenance.imports import read_export
from tests.importers.conftest import ME, move, outcome
from tests.importers.test_foreign_files import notes
from tests.maintenance.sample_data import opened


def kept_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def memories(*texts: str) -> list[dict[str, str]]:
    return [{"id": f"m{number}", "memory": text} for number, text in enumerate(texts)]


def test_a_number_too_long_for_python_does_not_stop_the_import(app: App, tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    long = '{"id": "n", "memory": "one", "metadata": {"n": %s}}' % ("9" * 100_000)
    file.write_text(f'[{long}, {{"id": "m", "memory": "two"}}]', encoding="utf-8")
    move(app, "mem0", file)
    assert "two" in notes(app)


def test_a_graph_is_stored_while_it_is_read(app: App, tmp_path: Path) -> None:
    """The bar moves, and other writers wait for a part only."""
    entities = [{"type": "entity", "name": f"Ann {n}", "entityType": "person", "observations": []} for n in range(1200)]
    file = tmp_path / "memory.jsonl"
    file.write_text("\n".join(map(json.dumps, entities)), encoding="utf-8")
    counts = []
    move(app, "server-memory", file, lambda what, done, total: counts.append(sum(app.graph.counts(ME))))
    assert {0, 500, 1000, 1200} <= set(counts)


def test_changed_memories_update_their_notes_unless_changed_here(app: App, tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    move(app, "mem0", kept_json(file, memories("one", "two", "three")))
    here = notes(app)
    app.notes.writer.update(ME, Author(), here["two"].id, Revision(content="two, as I say"))
    app.notes.writer.delete(ME, here["three"].id, soft=True)

    report = move(app, "mem0", kept_json(file, memories("one!", "two!", "three!", "four")))
    assert (report.updated, report.kept, report.imported) == (1, 2, 1)
    assert {problem.outcome for problem in report.problems} == {"kept"}
    now = notes(app)
    assert now["one!"].id == here["one"].id
    assert "two, as I say" in now
    again = move(app, "mem0", file)
    assert (again.updated, again.kept, again.skipped) == (0, 2, 2)
    assert move(app, "mem0", kept_json(file, memories("one?"))).updated == 1


def test_an_imported_export_remembers_local_changes(app: App, tmp_path: Path) -> None:
    file = kept_json(tmp_path / "mem0.json", memories("one", "two"))
    move(app, "mem0", file)
    move(app, "mem0", kept_json(file, memories("one", "two!")))
    app.notes.writer.update(ME, Author(), notes(app)["one"].id, Revision(content="one, as I say"))
    Export(app.opened, ME).run(tmp_path / "out")
    with opened(tmp_path / "elsewhere") as other:
        assert read_export(other.opened, ME, tmp_path / "out").left_out == []
        report = move(other, "mem0", kept_json(file, memories("one?", "two?")))
        assert (report.kept, report.updated) == (1, 1)
        assert set(notes(other)) == {"one, as I say", "two?"}


def test_a_second_memory_of_the_same_id_is_reported(app: App, tmp_path: Path) -> None:
    file = kept_json(tmp_path / "mem0.json", [*memories("one"), *memories("another"), *memories("one")])
    for dry_run, imported in ((True, 1), (False, 1), (True, 0), (False, 0)):
        report = move(app, "mem0", file, dry_run=dry_run)
        assert (report.imported, report.kept, report.updated, report.skipped) == (imported, 1, 0, 2 - imported)
        assert [problem.where for problem in report.problems] == ["record 2"]
    assert list(notes(app)) == ["one"]


def test_an_interrupted_import_is_completed_by_the_next(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.md").write_text("one", encoding="utf-8")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(app.stores, "reindex", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        move(app, "basic-memory", source)
    assert not (tmp_path / "stores" / "moved" / "index.yaml").exists()
    assert move(app, "basic-memory", source).skipped == 1
    assert 'path: "a"' in (tmp_path / "stores" / "moved" / "index.yaml").read_text(encoding="utf-8")


def test_a_dry_run_counts_updates_and_makes_none(app: App, tmp_path: Path) -> None:
    file = kept_json(tmp_path / "mem0.json", memories("one"))
    move(app, "mem0", file)
    kept_json(file, memories("one!"))
    assert move(app, "mem0", file, dry_run=True).updated == 1
    assert list(notes(app)) == ["one"]


def test_invalid_records_are_reported_and_the_others_imported(app: App, tmp_path: Path) -> None:
    records = [{"memory": "good", "metadata": {"n": float("nan")}}, "text", {"memory": " "}, {"memory": "x" * 2**21}, 7]
    report = move(app, "mem0", kept_json(tmp_path / "mem0.json", [*records, {"text": "also \ud800good"}]))
    assert outcome(report) == (6, 2, 0, 4)
    assert [problem.where for problem in report.problems] == ["record 2", "record 3", "record 4", "record 5"]
    assert set(notes(app)) == {"good", "also ?good"}


def test_a_truncated_file_is_imported_up_to_there(app: App, tmp_path: Path) -> None:
    whole = json.dumps({"count": 3, "results": memories("one", "two", "three")})
    (tmp_path / "cut.json").write_text(whole[:-20], encoding="utf-8")
    report = move(app, "mem0", tmp_path / "cut.json")
    assert outcome(report) == (3, 2, 0, 1)
    assert report.problems[0].where == "after record 2"


def test_a_large_file_is_read_record_by_record(app: App, tmp_path: Path) -> None:
    records = [{"id": str(n), "memory": f"memory {n} " + "ä" * 300} for n in range(1000)]
    report = move(app, "mem0", kept_json(tmp_path / "mem0.json", {"about": [1], "results": records, "next": None}))
    assert outcome(report) == (1000, 1000, 0, 0)


def test_an_openmemory_backup_keeps_category_names(app: App, tmp_path: Path) -> None:
    # As openmemory/api/app/routers/backup.py of mem0ai/mem0 writes it (last in commit 0b91de242^).
    lines = [
        {
            "id": "a",
            "content": "Likes tea",
            "metadata": {},
            "created_at": "2025-06-01T12:00:00+02:00",
            "state": "active",
        }
        | {"updated_at": None, "app": "cursor", "categories": ["drinks"]},
        {"id": "b", "content": "Gone", "metadata": {}, "state": "deleted", "app": None, "categories": []},
    ]
    packed = gzip.compress("\n".join([*map(json.dumps, lines), "no json"]).encode())
    plain = {
        "categories": [{"id": "c1", "name": "drinks"}],
        "memories": [{"id": "a", "content": "Likes tea", "metadata": None, "category_ids": ["c1"], "state": "active"}],
    }
    with zipfile.ZipFile(tmp_path / "backup.zip", "w") as archive:
        archive.writestr("memories.json", json.dumps(plain))
        archive.writestr("memories.jsonl.gz", packed)
    report = move(app, "mem0", tmp_path / "backup.zip")
    assert outcome(report) == (2, 1, 0, 1)
    assert report.left_out == 1
    [note] = notes(app).values()
    assert note.tags[0] == "drinks"
    assert note.metadata["app"] == "cursor"
    assert note.created_at == "2025-06-01T10:00:00.000Z"
    assert outcome(move(app, "mem0", kept_json(tmp_path / "memories.json", plain))) == (1, 0, 1, 0)


WRONG = {
    "mem0": b'{"type": "entity"}',
    "chatgpt": b'[{"uuid": "x"}]',
    "claude": b'{"messages": []}',
    "server-memory": b'{"results": []}\n{"memory": 1}\n',
    "mcp-memory-service": b"SQLite format 4\0" * 100,
    "basic-memory": b"a file",
    "anthropic-memory": b"a file",
}


@pytest.mark.parametrize("format_", list(WRONG))
@pytest.mark.parametrize("kind", ["wrong", "binary", "missing", "empty folder"])
def test_a_wrong_file_is_refused_and_nothing_is_written(
    app: App, tmp_path: Path, format_: ForeignFormat, kind: str
) -> None:
    path = tmp_path / "wrong.bin"
    if kind == "empty folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(WRONG[format_] if kind == "wrong" else os.urandom(64) + b"\n" + os.urandom(64))
    for dry_run in (True, False):
        with pytest.raises(Invalid):
            move(app, format_, path, dry_run=dry_run)
    assert notes(app) == {}
    assert app.stores.all(ME) == []
    assert app.graph.projects(ME, None).projects == []


CONVERSATION = {"title": "Taxes", "mapping": {"a": {"message": {"content": {"parts": ["When are they due?"]}}}}}


@pytest.mark.parametrize(
    ("format_", "files"),
    [
        ("chatgpt", {"conversations.json": [CONVERSATION], "user.json": {}}),
        ("claude", {"conversations.json": [{"uuid": "a", "chat_messages": []}], "users.json": []}),
    ],
)
def test_an_export_without_memories_is_recognized_and_says_how_to_get_them(
    app: App, tmp_path: Path, format_: ForeignFormat, files: dict[str, Any]
) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name, value in files.items():
            archive.writestr(name, json.dumps(value))
    assert detect(tmp_path / "export.zip") == format_
    report = move(app, format_, tmp_path / "export.zip")
    assert report.imported == 0
    [problem] = report.problems
    assert "list every memory" in problem.why


def test_another_sqlite_file_is_refused(app: App, tmp_path: Path) -> None:
    apsw.Connection(str(tmp_path / "other.db")).execute("CREATE TABLE memories (id, content)")
    with pytest.raises(Invalid, match="not a file of mcp-memory-service"):
        move(app, "mcp-memory-service", tmp_path / "other.db")


def test_an_open_database_is_read_with_its_wal(app: App, foreign: Path) -> None:
    path = foreign / "mcp-memory-service" / "sqlite_vec.db"
    open_there = apsw.Connection(str(path))
    open_there.pragma("journal_mode", "wal")
    open_there.execute("DROP TRIGGER IF EXISTS memories_fts_ai")
    for (name,) in open_there.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        open_there.execute(f'DROP TRIGGER "{name}"')
    open_there.execute(
        "INSERT INTO memories (content_hash, content, tags, metadata) VALUES ('h', 'just now', 'a,b', '[')"
    )
    report = move(app, "mcp-memory-service", path)
    assert report.imported == 4
    assert notes(app)["just now"].metadata["metadata"] == "["


def test_a_memory_at_the_same_path_stays_as_it_is(app: App, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.md").write_text("one", encoding="utf-8")
    (source / "b.pdf").write_bytes(b"%PDF")
    (source / "con.md").write_text("a name Windows keeps", encoding="utf-8")
    (source / "bad.md").write_bytes(b"\xff\xfe")
    (source / "broken.md").write_text("---\n: [\n---\nfront matter that is none\n", encoding="utf-8")
    (source / ".hidden.md").write_text("hidden", encoding="utf-8")
    (source / "link.md").symlink_to(source / "a.md")
    report = move(app, "basic-memory", source)
    assert outcome(report) == (4, 2, 0, 2)
    assert {problem.where for problem in report.problems if problem.outcome == "left_out"} == {"b.pdf", "link.md"}
    assert {problem.where for problem in report.problems if problem.outcome == "refused"} == {"bad.md", "con.md"}
    broken = tmp_path / "stores" / "moved" / "broken.md"
    assert broken.read_text(encoding="utf-8") == (source / "broken.md").read_text(encoding="utf-8")

    (source / "a.md").write_text("two", encoding="utf-8")
    for dry_run in (True, False):
        report = move(app, "basic-memory", source, dry_run=dry_run)
        assert (report.kept, report.skipped, report.imported) == (1, 1, 0)
    assert app.stores.get(ME, "moved", "a", include_expired=False).content == "one"


def test_a_folder_is_not_imported_into_itself(app: App, elsewhere: Path) -> None:
    source = elsewhere
    (source / "a.md").write_text("one", encoding="utf-8")
    app.stores.register(ME, "moved", source)
    with pytest.raises(Invalid, match="is the store 'moved' already"):
        move(app, "basic-memory", source)
    assert list(source.iterdir()) == [source / "a.md"]


def test_relations_may_come_before_their_entities(app: App, tmp_path: Path) -> None:
    lines = [
        {"type": "relation", "from": "A", "to": "B", "relationType": "r"},
        {"type": "entity", "name": "A", "entityType": "t", "observations": ["x"]},
        {"type": "entity", "name": "A", "entityType": "t", "observations": ["x", "y"]},
        {"type": "entity", "name": "B", "entityType": "t", "observations": []},
    ]
    (tmp_path / "g.jsonl").write_text("\ufeff" + "\n".join(map(json.dumps, lines)), encoding="utf-8")
    dry = move(app, "server-memory", tmp_path / "g.jsonl", dry_run=True)
    done = move(app, "server-memory", tmp_path / "g.jsonl")
    assert done.details == dry.details == {"entities": 2, "observations": 2, "relations": 1}
    assert outcome(done) == outcome(dry) == (4, 3, 1, 0)


def test_an_archived_project_is_not_added_to(app: App, foreign: Path) -> None:
    path = foreign / "server-memory" / "memory.jsonl"
    move(app, "server-memory", path)
    app.graph.archive_project(ME, "memory")
    for dry_run in (True, False):
        with pytest.raises(Conflict):
            move(app, "server-memory", path, dry_run=dry_run)
