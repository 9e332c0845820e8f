import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_mcp.cli import command_line, imports
from tests.cli.test_cli import run
from tests.importers.foreign_tools import FIXTURES

MEM0 = FIXTURES / "mem0" / "mem0.json"
GRAPH = FIXTURES / "server-memory" / "memory.jsonl"


def trace(folder: Path) -> dict[str, str]:
    """Every file under a folder, and what it says. Of a lock, which names its last user, only that it exists."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(b"" if file.suffix == ".lock" else file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_an_import_reports_and_a_second_one_adds_nothing(tmp_path: Path) -> None:
    into = ("--data-dir", str(tmp_path), "--namespace", "moved", "--json")
    first = run("import", "mem0", str(MEM0), *into)
    again = run("import", "mem0", str(MEM0), *into)
    assert (first.returncode, again.returncode, first.stderr) == (0, 0, "")
    report = json.loads(first.stdout)
    assert (report["read"], report["imported"], report["into"]) == (3, 3, "moved")
    assert json.loads(again.stdout)["skipped"] == 3
    done = run("import", "mem0", str(MEM0), "--data-dir", str(tmp_path), "--namespace", "moved")
    assert done.stdout == "3 read; 0 imported into the namespace 'moved'.\n3 were imported before.\n"


def test_a_dry_run_writes_nothing_at_all(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--dry-run", "--data-dir", str(data))
    for format_, path in (("mem0", MEM0), ("server-memory", GRAPH)):
        done = run("import", format_, str(path), *options)
        assert (done.returncode, "nothing was written" in done.stdout) == (0, True)
        assert not data.exists()

    data.mkdir()
    store = FIXTURES / "anthropic-memory" / "memory"
    imports = (("mem0", MEM0), ("server-memory", GRAPH), ("anthropic-memory", store))
    for _ in ("empty", "with notes alone"):
        before = trace(data)
        for format_, path in imports:
            assert run("import", format_, str(path), *options).returncode == 0
        assert trace(data) == before
        run("import", "mem0", str(MEM0), "--data-dir", str(data))


def test_refused_records_are_reported_and_exit_with_one(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(GRAPH.read_text(encoding="utf-8") + "\nno json\n", encoding="utf-8")
    done = run("import", "server-memory", str(tmp_path / "in.jsonl"), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "3 imported into the project 'memory'" in done.stdout
    assert done.stderr == "  line 5: It is neither an entity nor a relation of server-memory's format.\n"


def test_a_wrong_file_exits_with_one_and_says_what_to_give(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", GRAPH):
        done = run("import", "mem0", str(path), "--data-dir", str(tmp_path / "data"))
        assert done.returncode == 1
        assert done.stderr.startswith("memory-mcp: ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["import"],
        ["import", "poems", "x"],
        ["import", "mem0"],
        ["import", "mem0", "x", "--project", "p"],
        ["import", "server-memory", "x", "--store", "s"],
        ["import", "basic-memory", "x", "--namespace", "n"],
    ],
)
def test_bad_usage_exits_with_two(tmp_path: Path, arguments: list[str]) -> None:
    done = run(*arguments, MEMORY_MCP_DATA_DIR=str(tmp_path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--namespace", "--store", "--project"])
def test_invalid_destinations_are_refused(tmp_path: Path, option: str) -> None:
    format_, path = {
        "--namespace": ("mem0", MEM0),
        "--store": ("anthropic-memory", FIXTURES / "anthropic-memory"),
        "--project": ("server-memory", GRAPH),
    }[option]
    for dry in ([], ["--dry-run"]):
        done = run("import", format_, str(path), option, "a,b/../c", "--data-dir", str(tmp_path / "data"), *dry)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr


def test_an_export_moves_from_one_user_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = ("--data-dir", str(tmp_path / "data"))
    run("users", "add", "bob", *into)
    for format_, path in (("mem0", MEM0), ("server-memory", GRAPH)):
        assert run("import", format_, str(path), "--user", "bob", *into).returncode == 0
    assert json.loads(run("import", "mem0", str(MEM0), "--dry-run", "--json", *into).stdout)["imported"] == 3
    run("export", str(tmp_path / "out"), "--user", "bob", *into)
    assert run("import", "memory-mcp", str(tmp_path / "out"), "--user", "stranger", *into).returncode == 1

    progress = []

    @contextmanager
    def show_progress(as_json: bool, *, if_interrupted: str) -> Iterator[object]:
        yield lambda *work: progress.append(work)

    monkeypatch.setattr(imports, "show_progress", show_progress)
    with pytest.raises(SystemExit) as left:
        command_line(["import", "memory-mcp", str(tmp_path / "out"), *into])
    assert not left.value.code
    assert [work for work in progress if work[0] == "notes"] == [
        ("notes", done, 5) for done in range(6)
    ]  # and links and order
    assert ("graph", 2, 2) in progress
    assert json.loads(run("import", "mem0", str(MEM0), "--dry-run", "--json", *into).stdout)["skipped"] == 3
