import json
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memory_mcp.cli.main import cli
from memory_mcp.errors import Invalid
from memory_mcp.graph import exchange, picture
from memory_mcp.graph.model import Entity, NewEntity, Nodes, Relation, Tie
from tests.wire import Stdio


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


def test_a_file_of_server_memory_moves_in_and_back_out_the_same(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(FILE, encoding="utf-8")
    into = ("--project", "house", "--data-dir", tmp_path / "data")
    first = json.loads(run("graph", "import", tmp_path / "in.jsonl", *into, "--json"))
    again = json.loads(run("graph", "import", tmp_path / "in.jsonl", *into, "--json"))

    assert [first[name] for name in ("entities", "observations", "relations", "known")] == [2, 2, 1, 0]
    assert [again[name] for name in ("entities", "observations", "relations", "known")] == [0, 0, 0, 3]
    run("graph", "export", "house", tmp_path / "out.jsonl", "--data-dir", tmp_path / "data")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == FILE
    assert run("graph", "export", "house", "--data-dir", tmp_path / "data") == FILE

    server = Stdio.start(tmp_path / "data", "--families", "graph")
    assert len(server.call("search_nodes", query="chess", project="house")["relations"]) == 1
    server.close()


def test_an_import_adds_what_is_new_and_counts_what_cannot_be(tmp_path: Path) -> None:
    more = [
        {"type": "entity", "name": "Ann", "entityType": "cat", "observations": ["likes tea", "sings"]},
        {"type": "relation", "from": "Ann", "to": "Nobody", "relationType": "knows"},
    ]
    into = ("--project", "house", "--data-dir", tmp_path, "--json")
    for name, text in (("one", FILE), ("two", "\n".join(map(json.dumps, more)))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        told = json.loads(run("graph", "import", tmp_path / name, *into))
    assert told == {
        "project": "house",
        "entities": 0,
        "observations": 1,
        "relations": 0,
        "known": 1,
        "dangling": 1,
    }


@pytest.mark.parametrize(
    "line", ["no json", "[]", "{}", '{"type":"entity"}', '{"type":"entity","name":1,"entityType":"t"}']
)
def test_a_line_that_is_neither_is_named_and_nothing_is_taken(tmp_path: Path, line: str) -> None:
    with pytest.raises(Invalid, match="Line 4"):
        exchange.parse(FILE + line)


@given(
    st.lists(st.tuples(texts, texts, st.lists(texts, max_size=3)), max_size=5), st.lists(st.tuples(texts, texts, texts))
)
def test_what_is_written_is_read_again(
    entities: list[tuple[str, str, list[str]]], ties: list[tuple[str, str, str]]
) -> None:
    nodes = Nodes(
        [Entity("id", name, kind, observations, "", "") for name, kind, observations in entities],
        [Relation("id", *tie, "") for tie in ties],
    )
    parsed = exchange.parse("\n".join(exchange.lines([nodes])))
    assert parsed == (
        [NewEntity(name, kind, tuple(observations)) for name, kind, observations in entities],
        [Tie(*tie) for tie in ties],
    )


def test_the_picture_shows_every_entity_and_relation(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(FILE.replace("Ann", "A<n>&"), encoding="utf-8")
    run("graph", "import", tmp_path / "in.jsonl", "--project", "house", "--data-dir", tmp_path)
    drawn = ElementTree.fromstring(run("graph", "picture", "house", "--data-dir", tmp_path))  # noqa: S314  # our own

    svg = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f".//{svg}circle")) == 2
    assert len(drawn.findall(f"{svg}path")) == 1
    assert any("A<n>&" in (text.text or "") for text in drawn.findall(f".//{svg}text"))
    assert "plays chess" in (drawn.findall(f".//{svg}g/{svg}title")[0].text or "")


def test_a_picture_of_many_shows_the_best_connected() -> None:
    entities = [Entity(str(number), str(number), "t", [], "", "") for number in range(500)]
    relations = [Relation(str(number), "499", str(number), "knows", "") for number in range(10)]
    shown = picture.best_connected(entities, relations)
    assert len(shown) == picture.MOST
    assert shown[0].name == "499"
    assert picture.svg("many", shown, relations).count("<circle") == picture.MOST
