"""Long work shows its progress, and ends cleanly when it is interrupted."""

import json
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.importers.operations import NOTE_BATCH
from tests import processes
from tests.events import eventually
from tests.processes import environment
from tests.terminal import Terminal

MEMORIES = 4000  # enough that a signal arrives before the end
PLAIN = {"NO_COLOR": "1"}


@pytest.fixture(scope="module")
def export_of_mem0(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mem0") / "mem0.json"
    records = [{"id": str(number), "memory": f"Memory {number} " + "of deploys " * 20} for number in range(MEMORIES)]
    file.write_text(json.dumps({"results": records}))
    return file


@pytest.fixture(scope="module")
def imported(export_of_mem0: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A data directory after an interrupted import and a second one, and what both printed."""
    data_dir = tmp_path_factory.mktemp("data")
    arguments = ("import", "mem0", export_of_mem0, "--data-dir", data_dir)
    terminal = Terminal(*arguments, env=PLAIN)
    eventually(lambda: note_count(data_dir))
    terminal.process.send_signal(signal.SIGINT)
    code, first = terminal.finish()
    assert code == 130
    code, second = Terminal(*arguments, env=PLAIN).finish()
    assert code == 0
    return data_dir, first, second


def note_count(data_dir: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{data_dir / 'notes.db'}?mode=ro", uri=True)) as db:
            [(count,)] = db.execute("SELECT count(*) FROM notes")
            return int(count)
    except sqlite3.OperationalError:  # there is no file yet, or no table
        return 0


def test_an_import_shows_how_far_it_is(imported: tuple[Path, str, str]) -> None:
    _, first, second = imported
    for shown in (first, second):
        assert "Reading mem0.json" in shown
    assert "kB/s" in second or "MB/s" in second
    assert "100%" in second


def test_an_interrupted_import_goes_on_with_the_same_command(imported: tuple[Path, str, str]) -> None:
    data_dir, first, second = imported
    assert "memory-mcp: Interrupted at " in first
    assert "Run the same command again" in " ".join(first.split())
    assert "Traceback" not in first
    last = [line for line in second.splitlines() if line.strip()]
    assert f"{MEMORIES} read" in last[-2]
    before = int(last[-1].split()[0])
    assert 0 < before < MEMORIES
    [stored] = re.findall(r"([\d,]+) memories are stored\.", " ".join(first.split()))
    assert before - int(stored.replace(",", "")) in (0, NOTE_BATCH)  # the signal may come just after a commit
    assert f"{MEMORIES - before} imported" in last[-2]
    assert stats(data_dir)["notes"] == MEMORIES


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", ["export", "backup"])
def test_an_interrupted_copy_leaves_nothing(
    imported: tuple[Path, str, str], tmp_path: Path, verb: str, number: signal.Signals
) -> None:
    data_dir, _, _ = imported
    terminal = Terminal(verb, tmp_path / "copy", "--data-dir", data_dir, env=PLAIN)
    terminal.read_until("notes ━" if verb == "export" else "packing notes.db")
    terminal.process.send_signal(number)
    code, shown = terminal.finish()
    assert code == 130
    assert "memory-mcp: Interrupted" in shown  # with how far it was, if anything was counted
    assert "The same command starts again." in " ".join(shown.split())
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())


def is_waiting(pid: int) -> bool:
    """Whether a process waits in the kernel, as for input."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def test_a_question_ends_at_a_signal(tmp_path: Path) -> None:
    added = processes.run(
        *("add", "Keep this", "--data-dir", tmp_path, "--json"), env=environment(MEMORY_MCP_EMBEDDER="none"), check=True
    )
    ref = json.loads(added.stdout)["ref"]
    terminal = Terminal("rm", ref, "--data-dir", tmp_path, "--json")
    terminal.read_until("[y/N]")
    eventually(lambda: is_waiting(terminal.process.pid))  # Python sees a signal just before it reads only after that
    terminal.process.terminate()
    code, shown = terminal.finish()
    assert code == 130
    assert json.loads(shown.splitlines()[-1]) == {"error": "interrupted", "message": "Interrupted."}
    assert stats(tmp_path)["notes"] == 1


def test_without_a_terminal_there_is_no_bar(imported: tuple[Path, str, str], tmp_path: Path) -> None:
    data_dir, _, _ = imported
    done = processes.run("doctor", "--data-dir", data_dir, env=environment(MEMORY_MCP_EMBEDDER="none"))
    assert done.stderr == ""
    code, shown = Terminal("doctor", "--data-dir", data_dir, "--json", env={"NO_COLOR": "1"}).finish()
    assert code == 0
    assert json.loads(shown)["well"] is True


def stats(data_dir: Path) -> dict[str, int]:
    done = processes.run("stats", "--json", "--data-dir", data_dir, env=environment(MEMORY_MCP_EMBEDDER="none"))
    counts: dict[str, int] = json.loads(done.stdout)["families"]["notes"]
    return counts
