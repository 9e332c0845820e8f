import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.cli import command_line, memories
from memory_mcp.families.recall import Recall
from memory_mcp.families.recall.model import Recalled
from tests import processes
from tests.processes import environment
from tests.services.embedding.servers import needs_model
from tests.wire import Stdio

TEAPOT = "Aunt Berta keeps her savings in the blue teapot."


def run(data_dir: Path, *arguments: str, text: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    env = environment(MEMORY_MCP_EMBEDDER="none", **env)
    return processes.run(*arguments, "--data-dir", data_dir, stdin=text or "", env=env)


def run_json(data_dir: Path, *arguments: str, **more: Any) -> dict[str, Any]:
    done = run(data_dir, *arguments, "--json", **more)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def found(data_dir: Path, *arguments: str) -> list[str]:
    """The refs, when everything has been indexed."""
    for _ in range(20):
        answer = run_json(data_dir, "search", *arguments)
        if not answer["incomplete"]:
            return [hit["ref"] for hit in answer["hits"]]
    raise AssertionError(answer)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory for verbs that run in this process: starting one takes a second."""
    monkeypatch.setenv("MEMORY_MCP_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER", "none")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return tmp_path


def test_an_empty_search_says_what_a_person_can_type(tmp_path: Path) -> None:
    refused = run(tmp_path, "search", " ", "--json")
    assert refused.returncode == 2
    assert json.loads(refused.stderr)["message"] == (
        "Invalid value: Give words to look for. `memory-mcp list` lists the latest memories."
    )


def left_with(*arguments: str) -> object:
    with pytest.raises(SystemExit) as left:
        command_line(arguments)
    return left.value.code


def test_a_data_directory_is_created_in_no_folder_of_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER", "none")
    folders = {name: tmp_path / name for name in ("others", "older", "empty", "new")}
    for name, file in (
        ("others", "letter.txt"),
        ("older", "memory.txt"),
        ("older", "notes.db"),
        ("empty", ".DS_Store"),
    ):
        folders[name].mkdir(exist_ok=True)
        (folders[name] / file).touch()
    (folders["empty"] / "models").mkdir()  # as docs/deploy.md has it
    monkeypatch.chdir(folders["others"])
    for value, code, hint in (
        ("", 2, "empty"),
        (".", 1, "holds other files"),
        (str(folders["others"]), 1, "empty folder"),
    ):
        assert left_with("add", TEAPOT, "--data-dir", value) == code
        assert hint in capsys.readouterr().err
        monkeypatch.setenv("MEMORY_MCP_DATA_DIR", str(folders["others"]))
        assert left_with("add", TEAPOT) == 1
    assert [file.name for file in folders["others"].iterdir()] == ["letter.txt"]
    for name in ("older", "empty", "new"):
        assert left_with("add", TEAPOT, "--data-dir", str(folders[name])) == 0
        assert (folders[name] / "notes.db").stat().st_size


def test_added_memories_are_found_and_shown(tmp_path: Path) -> None:
    note = run_json(tmp_path, "add", TEAPOT, "--tags", "money, family", "--title", "Savings", "--namespace", "home")
    key = run_json(tmp_path, "add", "--family", "vault", "--key", "tea pot", text=TEAPOT)
    file = run_json(tmp_path, "add", TEAPOT, "--family", "stores", "--store", "diary", "--path", "days/may")
    assert (note["family"], key, file) == (
        "notes",
        {"family": "vault", "ref": "memory://vault/tea%20pot"},
        {"family": "stores", "ref": "stores:diary/days/may"},
    )
    refs = {note["ref"], key["ref"], file["ref"]}
    assert set(found(tmp_path, "teapot")) == refs
    assert found(tmp_path, "teapot", "--tags", "money") == [note["ref"]]
    assert found(tmp_path, "teapot", "--families", "vault", "--limit", "1") == [key["ref"]]
    for ref in (*refs, note["ref"].rpartition("/")[2]):
        assert run(tmp_path, "show", ref).stdout == f"{TEAPOT}\n"
    shown = run_json(tmp_path, "show", note["ref"])
    assert (shown["title"], shown["namespace"], set(shown["tags"]) >= {"money", "family"}) == ("Savings", "home", True)
    assert run_json(tmp_path, "show", file["ref"])["metadata"]["tags"] == []


def test_search_prints_for_people_too(tmp_path: Path) -> None:
    ref = run(tmp_path, "add", TEAPOT).stdout.strip()
    assert found(tmp_path, "teapot") == [ref]
    printed = run(tmp_path, "search", "teapot")
    assert printed.returncode == 0
    assert ref in printed.stdout
    assert "by its words" in printed.stdout
    assert printed.stdout.count("blue teapot") == 1
    assert "\x1b[" not in printed.stdout
    assert run(tmp_path, "search", "zeppelin").stdout == "Nothing matches.\n"


def test_entities_and_rows_are_shown_as_text_and_as_json(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--embedder", "none")
    server.call("create_project", name="house")
    entity = {"name": "tea pot/blue", "entity_type": "thing", "observations": [TEAPOT]}
    server.call("create_entities", project="house", entities=[entity])
    row = {"role": "user", "content": TEAPOT}
    server.call("portal_write", portalUri="mem://tests/talk", table="turns", data=[row])
    assert server.close() == 0

    refs = {"graph:house/tea%20pot%2Fblue", "mem://tests/talk/turns"}
    assert set(found(tmp_path, "teapot")) == refs
    for ref in refs:
        assert TEAPOT in run(tmp_path, "show", ref).stdout
        assert TEAPOT in json.dumps(run_json(tmp_path, "show", ref), ensure_ascii=False)
    counts = run_json(tmp_path, "stats")["families"]
    assert counts["graph"] == {"projects": 1, "entities": 1}
    assert (counts["portals"]["portals"], counts["portals"]["tables"], counts["portals"]["rows"]) == (1, 1, 1)


@needs_model
def test_what_was_added_without_a_server_is_found_by_its_meaning(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER", "builtin")
    assert left_with("add", "My car is parked in the garage") == 0
    assert left_with("add", "My bicycle has a flat tyre", "--family", "vault", "--key", "k") == 0
    capsys.readouterr()
    monkeypatch.setattr(memories, "MAX_EMBEDDING_S", 0.0)
    assert left_with("search", "where is my vehicle") == 0
    assert "1 note has no vector yet" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("MEMORY_MCP_DATA_DIR", str(here))
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER", "builtin")
    monkeypatch.setattr("memory_mcp.families.recall.operations.SEARCH_TIMEOUT_S", 60.0)  # for a busy machine
    for query, expected in (("where is my vehicle", "parked in the garage"), ("is my bike broken", "memory://vault/k")):
        assert left_with("search", query) == 0
        shown = capsys.readouterr()
        assert expected in shown.out
        assert "no vector" not in shown.err


def test_a_damaged_file_is_reported_first_with_what_to_type(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with("add", TEAPOT) == 0
    (here / "notes.db").write_bytes(b"no database" * 1000)
    capsys.readouterr()
    assert left_with("search", "zebra", "--data-dir", str(here)) == 1
    shown = capsys.readouterr()
    assert shown.out == "Nothing matches in the rest.\n"
    assert shown.err.startswith("notes: ")
    assert f"`memory-mcp doctor --data-dir {here}`" in shown.err
    assert left_with("search", "zebra", "--json") == 1
    assert "recall_overview" not in capsys.readouterr().out
    assert left_with("doctor") == 1
    advice = capsys.readouterr().out
    assert advice.count("memory-mcp restore FILE --data-dir") == 1


def test_stats_count_every_family(tmp_path: Path) -> None:
    run_json(tmp_path, "add", TEAPOT)
    run_json(tmp_path, "add", TEAPOT, "--family", "vault", "--key", "k")
    run_json(tmp_path, "add", TEAPOT, "--family", "stores", "--store", "s", "--path", "a")
    answer = run_json(tmp_path, "stats")
    assert answer["data_dir"] == str(tmp_path)
    assert answer["families"]["vault"] == {"memories": 1}
    assert answer["families"]["notes"] == {"notes": 1, "namespaces": 1, "embedded": 0, "waiting": 1}
    assert answer["families"]["stores"] == {"stores": 1, "memories": 1}
    printed = run(tmp_path, "stats").stdout
    assert "1 memory\n" in printed
    assert "1 note, 1 namespace, " in printed
    assert str(tmp_path) in printed


@pytest.mark.parametrize(
    "ref",
    [
        "nonsense",
        "memory://note/x",
        "memory://vault/nothing",
        "stores:diary/nothing",
        "graph:house/x",
        "mem://a/b/c",
        "",
    ],
)
def test_an_unknown_ref_is_explained(here: Path, ref: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_with("show", ref) == 1
    assert capsys.readouterr().err.startswith("memory-mcp: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["search"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--families", "poems"],
        ["search", " "],
        ["add"],
        ["add", "  "],
        ["add", "x", "--family", "graph"],
        ["add", "x", "--family", "vault"],
        ["add", "x", "--family", "stores", "--store", "s"],
        ["show"],
    ],
)
def test_bad_usage_exits_with_two(here: Path, arguments: list[str]) -> None:
    assert left_with(*arguments) == 2


def test_search_prints_notices(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recall, "recall", lambda *_: Recalled([], [], [], notice="3 more did not fit."))
    assert not left_with("search", "teapot")
    assert capsys.readouterr() == ("Nothing matches.\n", "3 more did not fit.\n")


def test_search_says_that_the_model_is_missing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER", "auto")
    monkeypatch.setenv("MEMORY_MCP_MODELS_DIR", str(here / "none"))
    assert not left_with("search", "teapot")
    err = capsys.readouterr().err
    assert "memory-mcp models pull" in err
    assert "memory-mcp list" in err  # and no tool, which a person cannot call
    assert "recall_overview" not in err


def test_stats_say_plainly_why_a_family_cannot_be_counted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "stores.yaml").write_text("- [", encoding="utf-8")
    assert not left_with("stats")
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("stores ")]
    assert "stores.yaml" in line
    assert not line.rstrip().endswith(" error")


def test_a_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    done = processes.run("add", "--data-dir", tmp_path, stdin=b"caf\xe9")
    assert (done.returncode, "not UTF-8" in done.stderr) == (2, True)
