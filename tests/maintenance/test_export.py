"""Export in open formats, and import without duplicates."""

import json
import zipfile
from pathlib import Path

import pytest
import yaml

from memory_mcp.caller import ALL_SCOPES, Caller
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.families.graph.model import Entity, NewEntity, Relation
from memory_mcp.families.notes.model import Author, NewNote, NoteQuery
from memory_mcp.families.stores.folder_scan import MAX_FILE_BYTES
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.maintenance.exports import Export
from memory_mcp.maintenance.imports import read_export
from memory_mcp.maintenance.zip_file import unpack_export
from tests.maintenance.sample_data import LOCAL, PORTAL, answer, furnish, opened, run, tree


def test_everything_is_exported_in_open_formats(tmp_path: Path) -> None:
    data_dir, out = tmp_path / "data", tmp_path / "out"
    other = furnish(data_dir, tmp_path / "elsewhere", portals=True)
    done = answer("export", out, "--data-dir", data_dir)
    families = {"vault": 1, "notes": 3, "links": 1, "stores": 4, "graph": 2, "portals": 1}
    assert done["counts"] == families | {"conversations": 0}
    assert done["left_out"] == []
    _check_files(out)

    theirs = answer("export", tmp_path / "theirs", "--user", "bob", "--data-dir", data_dir)
    assert theirs["counts"]["vault"] == 1
    assert f"content of {other.user}" in (tmp_path / "theirs" / "vault.jsonl").read_text()

    _import_twice(out, tmp_path / "new")
    _check_equal(tmp_path / "new", data_dir)
    assert answer("doctor", "--data-dir", tmp_path / "new")["well"] is True


def _check_files(out: Path) -> None:
    [memory] = map(json.loads, (out / "vault.jsonl").read_text().splitlines())
    assert (memory["key"], memory["content"], memory["embedding"]) == ("k", "content of local", [1.0, 0.0, 0.5])
    [two] = (out / "notes" / "default" / "a" / "b").glob("Two-*.md")
    _, front, body = two.read_text().split("---\n", 2)
    assert yaml.safe_load(front)["metadata"] == {"a": [1, {"b": None}]}
    assert body == "\nbody\n\n"
    assert (out / "stores" / "vault-of-mine" / "mine.md").read_text() == "written by hand\n"
    lines = [json.loads(line) for line in (out / "graph" / "work.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["entity", "entity", "relation"]
    assert (out / "portals" / "tests" / "kept" / "events.csv").read_text() == '"id","what"\n1,"kept"\n2,"too"\n'
    assert (out / "portals" / "tests" / "kept" / "events.parquet").read_bytes()[:4] == b"PAR1"
    assert run("portal", "open", out / "portals" / "tests" / "kept.db").returncode == 0
    for name in ("vault.jsonl", "links.jsonl", "order.jsonl", "projects.jsonl", "portals/", "conversations.jsonl"):
        assert name in (out / "README.md").read_text()


def _import_twice(out: Path, data_dir: Path) -> None:
    """The second time adds nothing; a dry run reports the same and writes nothing."""
    with opened(data_dir) as app:
        tried = read_export(app.opened, LOCAL, out, dry_run=True)
        assert list(app.vault.everything(LOCAL)) == []
        taken = read_export(app.opened, LOCAL, out)
        assert tried.left_out == taken.left_out == []
        assert (tried.new, tried.known) == (taken.new, taken.known)
        what = {"memories", "notes", "links", "files", "projects", "entities", "observations", "relations", "portals"}
        assert {name for name, count in taken.new.items() if count} == what
        once_more = read_export(app.opened, LOCAL, out, dry_run=True)
        again = read_export(app.opened, LOCAL, out)
        assert sum(again.new.values()) == 0
        assert again.left_out == []
        assert once_more == again
        assert app.portals.query(LOCAL, PORTAL, "SELECT * FROM events ORDER BY id", {}).rows == [
            {"id": 1, "what": "kept"},
            {"id": 2, "what": "too"},
        ]


def _check_equal(imported: Path, exported: Path) -> None:
    with opened(imported) as app, opened(exported) as origin:
        assert list(app.vault.everything(LOCAL)) == list(origin.vault.everything(LOCAL))
        assert shown(app) == shown(origin)
        assert [link[:3] for link in app.notes.transfer.every_link(LOCAL)] == [
            link[:3] for link in origin.notes.transfer.every_link(LOCAL)
        ]
        changed = [(path / "stores" / "ours" / "a" / "memory.md").stat().st_mtime_ns for path in (imported, exported)]
        assert changed[0] == changed[1]
        assert app.stores.get(LOCAL, "ours", "a/memory", include_expired=True) == origin.stores.get(
            LOCAL, "ours", "a/memory", include_expired=True
        )
        assert graphs(app) == graphs(origin)


def shown(app: object) -> object:
    """Notes in the order they were written, without the fields that an export leaves out."""
    found = app.notes.transfer.everything(LOCAL)  # type: ignore[attr-defined]  # an App
    return [vars(one) | {"note": vars(one.note) | {"superseded_by": None, "tags": set(one.note.tags)}} for one in found]


def graphs(app: object) -> object:
    graph = app.graph  # type: ignore[attr-defined]  # an App
    return {
        (one.name, one.description, one.status): [
            (item.name, item.entity_type, tuple(item.observations))
            if isinstance(item, Entity)
            else (item.source, item.target, item.relation_type)
            for item in graph.everything_of(LOCAL, one)
            if isinstance(item, (Entity, Relation))
        ]
        for one in graph.every_project(LOCAL)
    }


@pytest.mark.parametrize(
    "content",
    [
        "plain",
        "\n\nleading and trailing\n\n",
        "---\nfront: no\n---\n\nbody",
        "CR\r\nLF\r\n",
        "😀 日本語 \u2028 \x85",
        "a\n---\n\nb",
    ],
)
def test_a_note_survives_export_and_import(tmp_path: Path, content: str) -> None:
    with opened(tmp_path / "one") as app:
        note = app.notes.writer.create(
            LOCAL,
            Author(),
            NewNote(content, title="a/b: *c* ..", namespace="ns/../x", folder="f//.g/..", tags=("yes", "1")),
        )
        Export(app.opened, LOCAL).run(tmp_path / "out")
    assert not {path for path in tree(tmp_path / "out") if ".." in path.split("/")}
    with opened(tmp_path / "two") as app:
        taken = read_export(app.opened, LOCAL, tmp_path / "out")
        assert taken.left_out == []
        back = app.notes.reader.read(LOCAL, note.id)
    assert (back.content, back.title, back.namespace, back.folder, back.tags, back.created_at) == (
        *(note.content, note.title, note.namespace, note.folder),
        *(note.tags, note.created_at),
    )


def test_notes_are_imported_in_the_order_they_were_written(tmp_path: Path) -> None:
    """Each with the note before it, whose words find it."""
    with opened(tmp_path / "one") as app:
        written = [app.notes.writer.create(LOCAL, Author(session_id="s"), NewNote(text)) for text in CONVERSATION]
        app.notes.writer.create(LOCAL, Author(session_id="s"), NewNote("A place apart", namespace="other"))
        Export(app.opened, LOCAL).run(tmp_path / "out")
    with opened(tmp_path / "two") as app, opened(tmp_path / "one") as origin:
        assert read_export(app.opened, LOCAL, tmp_path / "out").left_out == []
        assert shown(app) == shown(origin)
        [near] = app.notes.series.around(LOCAL, [written[1].id], 1).values()
        assert [one.note.id for one in sorted(near, key=lambda one: one.distance)] == [note.id for note in written]
        hits, _ = app.notes.reader.hits(LOCAL, NoteQuery("orchestra", mode="lexical"))
        assert {hit.id for hit in hits} == {written[0].id, written[1].id}


@pytest.mark.parametrize("namespace", ["order.jsonl", "Links.jsonl"])
def test_a_namespace_may_be_called_like_a_file_of_an_export(tmp_path: Path, namespace: str) -> None:
    with opened(tmp_path / "one") as app:
        note = app.notes.writer.create(LOCAL, Author(), NewNote("text", namespace=namespace))
        Export(app.opened, LOCAL).run(tmp_path / "out")
    with opened(tmp_path / "two") as app:
        assert read_export(app.opened, LOCAL, tmp_path / "out").left_out == []
        assert app.notes.reader.read(LOCAL, note.id).namespace == namespace


def test_an_import_by_the_command_line_is_listed_undone_and_repeated(tmp_path: Path) -> None:
    """Also once more after the undo: the notes are as they were."""
    with opened(tmp_path / "one") as app:
        for text in CONVERSATION:
            app.notes.writer.create(LOCAL, Author(session_id="s"), NewNote(text))
        app.vault.import_memory(
            LOCAL, NewMemory("vault", "k", "content"), "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
        )
        Export(app.opened, LOCAL).run(tmp_path / "out")
    into = ("--data-dir", tmp_path / "two")
    assert run("import", "memory-mcp", tmp_path / "out", *into).returncode == 0
    assert {one["source"] for one in answer("writes", "list", *into)["writes"]} == {"import"}
    with opened(tmp_path / "two") as app:
        [listed] = app.importers.history(LOCAL).all()
        assert (listed.source, listed.imported, listed.state) == ("out", 4, "done")
        undone = app.own_exports.undo(LOCAL, listed.id)
        assert (undone.removed, undone.kept) == (4, 0)
        assert list(app.vault.everything(LOCAL)) == []
    done = answer("import", "memory-mcp", tmp_path / "out", *into)
    assert done["new"] == {"memories": 1, "notes": 3}
    with opened(tmp_path / "two") as app, opened(tmp_path / "one") as origin:
        positions = [one.position for one in app.notes.transfer.everything(LOCAL)]
        assert positions == [one.position for one in origin.notes.transfer.everything(LOCAL)]


CONVERSATION = ("What about the orchestra?", "In Lisbon.", "A fine place.")


@pytest.mark.parametrize(
    ("order", "left_out"),
    [
        ([], []),  # of an older version
        ([{"file": "../../x.md", "previous": None}, {"file": "default/nothing.md"}], []),
        ([{"file": 1}, {"previous": None}, 7], ["notes/order.jsonl:1", "notes/order.jsonl:2", "notes/order.jsonl:3"]),
    ],
)
def test_an_unusable_order_loses_no_note(tmp_path: Path, order: list[object], left_out: list[str]) -> None:
    with opened(tmp_path / "one") as app:
        for text in CONVERSATION:
            app.notes.writer.create(LOCAL, Author(session_id="s"), NewNote(text))
        Export(app.opened, LOCAL).run(tmp_path / "out")
    (tmp_path / "out" / "notes" / "order.jsonl").write_text("\n".join(map(json.dumps, order)))
    with opened(tmp_path / "two") as app:
        taken = read_export(app.opened, LOCAL, tmp_path / "out")
        found = list(app.notes.transfer.everything(LOCAL))
    assert [one.path for one in taken.left_out] == left_out
    assert sorted(one.note.content for one in found) == sorted(CONVERSATION)
    assert {one.position.previous_id for one in found} == {None}


def test_a_note_follows_only_a_note_of_its_namespace_that_came_before_it(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as app:
        first, second = (app.notes.writer.create(LOCAL, Author(), NewNote(text)) for text in CONVERSATION[:2])
        apart = app.notes.writer.create(LOCAL, Author(), NewNote("A place apart", namespace="other"))
        Export(app.opened, LOCAL).run(tmp_path / "out")
    order = tmp_path / "out" / "notes" / "order.jsonl"
    lines = [json.loads(line) for line in order.read_text().splitlines()]
    before = [second.id, apart.id, apart.id]  # a later one, one of another namespace, itself
    order.write_text("\n".join(json.dumps(line | {"previous": id_}) for line, id_ in zip(lines, before, strict=True)))
    with opened(tmp_path / "two") as app:
        assert read_export(app.opened, LOCAL, tmp_path / "out").left_out == []
        found = {one.note.id: one.position.previous_id for one in app.notes.transfer.everything(LOCAL)}
    assert found == dict.fromkeys((first.id, second.id, apart.id))


def test_existing_data_stays_unchanged(tmp_path: Path) -> None:
    furnish(tmp_path / "data")
    with opened(tmp_path / "data") as app:
        Export(app.opened, LOCAL).run(tmp_path / "out")
        [(memory, _)] = app.vault.everything(LOCAL)
        (tmp_path / "out" / "vault.jsonl").write_text(
            json.dumps({**vars(memory), "content": "another"}) + "\nrubbish\n[]\n" + json.dumps({"key": 1}) + "\n"
        )
        (tmp_path / "out" / "notes" / "bad.md").write_text("no front matter")
        taken = read_export(app.opened, LOCAL, tmp_path / "out")
        assert [(memory, None)] == [(memory, None) for memory, _ in app.vault.everything(LOCAL)]
    assert [one.path for one in taken.left_out] == ["vault.jsonl:2", "vault.jsonl:3", "vault.jsonl:4", "notes/bad.md"]
    assert taken.new.get("memories", 0) == 0


def test_a_dry_run_predicts_the_result_for_partly_invalid_data(tmp_path: Path) -> None:
    furnish(tmp_path / "data")
    out = tmp_path / "out"
    with opened(tmp_path / "data") as app:
        Export(app.opened, LOCAL).run(out)
    [memory] = (out / "vault.jsonl").read_bytes().splitlines()
    record = json.loads(memory)
    lines = [memory, memory, b"\xff\xfe", json.dumps({**record, "key": "when", "created_at": "yesterday"}).encode()]
    lines.append(json.dumps({**record, "key": "zone", "created_at": "2020-01-01T02:00:00+02:00"}).encode())
    (out / "vault.jsonl").write_bytes(b"\n".join(lines))
    [link] = map(json.loads, (out / "notes" / "links.jsonl").read_text().splitlines())
    links = [link, link, {**link, "target_id": "unknown"}, {**link, "target_id": link["source_id"]}]
    (out / "notes" / "links.jsonl").write_text("\n".join(map(json.dumps, links)))
    with (out / "graph" / "work.jsonl").open("a") as lines_of_graph:
        lines_of_graph.write('{"type": "relation", "from": "A", "to": "unknown", "relationType": "r"}\n')
    (out / "graph" / "_projects.jsonl").write_text('{"name": ["work"]}\n')
    with opened(tmp_path / "new") as app:
        app.graph.add_graph(LOCAL, "old", [NewEntity("mine", "thing")], [])
        app.graph.archive_project(LOCAL, "old")
        tried = read_export(app.opened, LOCAL, out, dry_run=True)
        taken = read_export(app.opened, LOCAL, out)
        times = {memory.key: memory.created_at for memory, _ in app.vault.everything(LOCAL)}
    assert (tried.new, tried.known) == (taken.new, taken.known)
    assert [one.path for one in tried.left_out] == [one.path for one in taken.left_out]
    assert [one.path for one in taken.left_out] == [
        *("vault.jsonl:3", "vault.jsonl:4", "notes/links.jsonl:3", "notes/links.jsonl:4"),
        *("graph/old.jsonl", "graph/work.jsonl"),
    ]
    assert "is archived here" in taken.left_out[4].why
    assert times == {"k": "2020-01-01T00:00:00Z", "zone": "2020-01-01T00:00:00Z"}
    assert (taken.new["links"], taken.known["links"]) == (1, 1)


def test_an_imported_project_keeps_the_time_of_its_creation(tmp_path: Path) -> None:
    furnish(tmp_path / "data")
    out = tmp_path / "out"
    with opened(tmp_path / "data") as app:
        for name in ("since", "odd"):
            app.graph.add_graph(LOCAL, name, [NewEntity("A", "thing")], [])
        Export(app.opened, LOCAL).run(out)
    about = out / "graph" / "_projects.jsonl"
    times: dict[str, object] = {
        "old": "2019-05-06T07:08:09Z",
        "work": "2020-01-01T01:00:00+01:00",
        "since": None,  # the time of the import
        "odd": "yesterday",
    }
    projects = [json.loads(line) for line in about.read_text().splitlines()]
    about.write_text("".join(json.dumps(one | {"created_at": times[one["name"]]}) + "\n" for one in projects))
    with opened(tmp_path / "new") as app:
        tried = read_export(app.opened, LOCAL, out, dry_run=True)
        taken = read_export(app.opened, LOCAL, out)
        created = {one.name: one.created_at for one in app.graph.every_project(LOCAL)}
    assert [one.path for one in taken.left_out] == ["graph/odd.jsonl"]
    assert (tried.left_out, tried.new) == (taken.left_out, taken.new)
    assert created.pop("since") > "2026"
    assert created == {"old": "2019-05-06T07:08:09Z", "work": "2020-01-01T00:00:00Z"}


def test_store_files_are_imported_up_to_the_size_limit(tmp_path: Path) -> None:
    furnish(tmp_path / "data")
    with opened(tmp_path / "data") as app:
        Export(app.opened, LOCAL).run(tmp_path / "out")
        (tmp_path / "out" / "stores" / "ours" / "large.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
        (tmp_path / "out" / "stores" / "ours" / "picture.png").write_bytes(b"\x89PNG\xff")
        (tmp_path / "out" / "stores" / "empty").mkdir()
        for dry_run in (True, False):
            taken = read_export(app.opened, LOCAL, tmp_path / "out", dry_run=dry_run)
            assert [one.path for one in taken.left_out] == ["stores/ours/large.md"]
            assert taken.new["files"] == 1
    assert (tmp_path / "data" / "stores" / "ours" / "picture.png").read_bytes() == b"\x89PNG\xff"


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "export.json").write_text('{"format": "memory-mcp-export/2"}')
    with opened(tmp_path / "data") as app:
        with pytest.raises(Conflict):
            Export(app.opened, LOCAL).run(tmp_path / "full")
        with pytest.raises(NotFound):
            read_export(app.opened, LOCAL, tmp_path / "full")
        with pytest.raises(Invalid, match="unknown format"):
            read_export(app.opened, LOCAL, tmp_path / "newer")
        stranger = Caller("unknown", ALL_SCOPES, LOCAL.families)
        done = Export(app.opened, stranger).run(tmp_path / "empty")
    assert set(done.counts.values()) == {0}
    assert run("export", tmp_path / "x", "--user", "unknown", "--data-dir", tmp_path / "data").returncode == 1


def test_a_zip_without_dates_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("export.json", (1980, 0, 0, 0, 0, 0)), "{}")
    with unpack_export(tmp_path / "packed.zip") as folder:
        assert (folder / "export.json").read_text() == "{}"
