import io
import json
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.cli.main import cli, command_line
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.families.graph import Graph, exchange, picture
from memory_mcp.families.graph.model import Entity, NamedRelation, NewEntity, Relation
from tests.conftest import Clock
from tests.wire import Stdio

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"graph"}))


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


FILE = (
    '{"type":"entity","name":"Ann","entityType":"person","observations":["likes tea","plays chess"]}\n'
    '{"type":"entity","name":"Postgres","entityType":"technology","observations":[]}\n'
    '{"type":"relation","from":"Ann","to":"Postgres","relationType":"uses"}\n'
)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10).map(nfc)


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments: object) -> str:
    """What a command that must fail says, where a person sees it."""
    errors = io.StringIO()
    with redirect_stderr(errors), pytest.raises(SystemExit) as end:
        command_line([str(argument) for argument in arguments])
    assert end.value.code == 1
    return errors.getvalue()


def test_a_file_of_server_memory_moves_in_and_back_out_the_same(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(FILE, encoding="utf-8")
    into = ("--project", "house", "--data-dir", tmp_path / "data")
    first = json.loads(run("graph", "import", tmp_path / "in.jsonl", *into, "--json"))
    again = json.loads(run("graph", "import", tmp_path / "in.jsonl", *into, "--json"))

    assert (first["details"], first["skipped"]) == ({"entities": 2, "observations": 2, "relations": 1}, 0)
    assert (again["details"], again["skipped"]) == ({"entities": 0, "observations": 0, "relations": 0}, 3)
    run("graph", "export", "house", tmp_path / "out.jsonl", "--data-dir", tmp_path / "data")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == FILE
    assert run("graph", "export", "house", "--data-dir", tmp_path / "data") == FILE

    server = Stdio.start(tmp_path / "data", "--families", "graph")
    assert len(server.call("search_nodes", query="chess", project="house")["relations"]) == 1
    server.close()


def test_an_import_adds_new_items_and_counts_impossible_ones(tmp_path: Path) -> None:
    more = [
        {"type": "entity", "name": "Ann", "entityType": "cat", "observations": ["likes tea", "sings"]},
        {"type": "relation", "from": "Ann", "to": "Unknown", "relationType": "knows"},
    ]
    into = ("--project", "house", "--data-dir", tmp_path / "data", "--json")
    for name, text in (("one", FILE), ("two", "\n".join(map(json.dumps, more)))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        report = json.loads(run("graph", "import", tmp_path / name, *into))
    assert report["details"] == {"entities": 0, "observations": 1, "relations": 0}
    assert (report["read"], report["skipped"], report["left_out"], report["refused"]) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    "line", ["no json", "[]", "{}", '{"type":"entity"}', '{"type":"entity","name":1,"entityType":"t"}']
)
def test_a_line_that_is_neither_is_named_and_the_rest_moves_in(tmp_path: Path, line: str) -> None:
    (tmp_path / "in.jsonl").write_text(FILE + line, encoding="utf-8")
    into = ("--project", "house", "--data-dir", tmp_path / "data")
    assert "line 4: It is neither" in refused("graph", "import", tmp_path / "in.jsonl", *into)
    assert run("graph", "export", "house", "--data-dir", tmp_path / "data") == FILE


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"type": "entity", "name": "n" * 513, "entityType": "t"}, "the name has 513 characters, and the limit is 512"),
        ({"type": "entity", "name": "n", "entityType": ""}, "the entityType is empty."),
        ({"type": "entity", "name": "\ud800", "entityType": "t"}, "the name has half of a character"),
        ({"type": "relation", "from": "a", "to": "b", "relationType": "r" * 129}, "the relationType has 129"),
        ({"type": "relation", "from": "a", "to": "", "relationType": "r"}, "`to` is empty."),
    ],
)
def test_a_line_that_does_not_fit_is_named_in_the_error(line: dict[str, str], message: str) -> None:
    [(number, refusal)] = exchange.read([b"\n", json.dumps(line).encode()])
    assert number == 2
    assert isinstance(refusal, Invalid)
    assert refusal.message.startswith(message)


def test_empty_observations_say_nothing_and_are_left_out() -> None:
    line = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["", "likes tea"]}
    assert list(exchange.read([json.dumps(line).encode()])) == [(1, NewEntity("Ann", "person", ("likes tea",)))]


def test_an_import_notes_when_a_known_entity_changed(app: App, clock: Clock) -> None:
    app.graph.add_graph(ME, "house", [NewEntity("Ann", "t", ("old",)), NewEntity("Bob", "t")], [])
    clock.now += timedelta(hours=1)
    app.graph.add_graph(ME, "house", [NewEntity("Ann", "t", ("old", "new")), NewEntity("Bob", "t")], [])
    items = app.graph.everything(ME, "house")
    updated = {item.name: item.updated_at for item in items if isinstance(item, Entity)}
    assert updated == {"Ann": "2030-01-01T13:00:00Z", "Bob": "2030-01-01T12:00:00Z"}


def test_an_export_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.jsonl").write_text(FILE, encoding="utf-8")
    run("graph", "import", tmp_path / "in.jsonl", "--project", "house", "--data-dir", tmp_path / "data")
    out = tmp_path / "out" / "graph.jsonl"
    out.parent.mkdir()
    out.write_text("precious", encoding="utf-8")
    out.chmod(0o600)

    def breaking(*_: object) -> Iterator[Entity]:
        yield Entity("id", "Ann", "t", [], "", "")
        raise Unavailable("The disk is gone.")

    with monkeypatch.context() as broken:
        broken.setattr(Graph, "everything", breaking)
        assert "The disk is gone." in refused("graph", "export", "house", out, "--data-dir", tmp_path / "data")
    assert out.read_text(encoding="utf-8") == "precious"
    run("graph", "export", "house", out, "--data-dir", tmp_path / "data")
    assert out.read_bytes() == FILE.encode()
    assert out.stat().st_mode & 0o777 == 0o600
    assert list(out.parent.iterdir()) == [out]


@given(
    st.lists(st.tuples(texts, texts, st.lists(texts, max_size=3)), max_size=5), st.lists(st.tuples(texts, texts, texts))
)
def test_written_lines_are_read_as_written(
    entities: list[tuple[str, str, list[str]]], ties: list[tuple[str, str, str]]
) -> None:
    items: list[Entity | Relation] = [
        *(Entity("id", name, kind, observations, "", "") for name, kind, observations in entities),
        *(Relation("id", *tie, "") for tie in ties),
    ]
    parsed = [found for _, found in exchange.read(line.encode() for line in exchange.lines(items))]
    assert parsed == [
        *(NewEntity(name, kind, tuple(observations)) for name, kind, observations in entities),
        *(NamedRelation(*tie) for tie in ties),
    ]


def test_the_picture_shows_every_entity_and_relation(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(FILE.replace("Ann", "A<n>&"), encoding="utf-8")
    run("graph", "import", tmp_path / "in.jsonl", "--project", "house", "--data-dir", tmp_path / "data")
    picture = run("graph", "picture", "house", "--data-dir", tmp_path / "data")
    drawn = ElementTree.fromstring(picture)  # noqa: S314  # our own

    svg = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f".//{svg}circle")) == 2
    assert len(drawn.findall(f"{svg}path")) == 1
    assert any("A<n>&" in (text.text or "") for text in drawn.findall(f".//{svg}text"))
    assert "plays chess" in (drawn.findall(f".//{svg}g/{svg}title")[0].text or "")


def test_a_picture_of_many_shows_the_best_connected() -> None:
    entities = [Entity(str(number), str(number), "t", [], "", "") for number in range(500)]
    relations = [Relation(str(number), "499", str(number), "knows", "") for number in range(10)]
    shown = picture.best_connected(entities, relations)
    assert len(shown) == picture.MAX_ENTITIES
    assert shown[0].name == "499"
    assert picture.svg("many", shown, relations).count("<circle") == picture.MAX_ENTITIES
