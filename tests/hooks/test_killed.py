"""Two conversations of one project are captured at once, and both captures are killed in the middle."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.conversations.model import ConversationFilter
from memory_mcp.families.notes.model import Filter, NoteQuery
from tests.events import eventually

MESSAGES = 400


@pytest.fixture
def project(elsewhere: Path) -> Path:
    (elsewhere / ".memory-mcp").write_text('project = "shop"')
    for name in ("one", "two"):
        with (elsewhere / f"{name}.jsonl").open("w") as file:
            for number in range(MESSAGES):
                message = {"role": "user", "content": f"{name} {number}"}
                record = {"type": "user", "uuid": str(number), "message": message}
                record["timestamp"] = f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z"
                file.write(json.dumps(record) + "\n")
    return elsewhere


def start_capture(data_dir: Path, project: Path, name: str) -> subprocess.Popen[bytes]:
    """A capture as a process of its own, as it runs without a shared server."""
    payload = {"session_id": name, "cwd": str(project), "transcript_path": str(project / f"{name}.jsonl")}
    command = [sys.executable, "-m", "memory_mcp", "hook", "SessionEnd", "--data-dir", str(data_dir), "--detached"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(json.dumps(payload).encode())
    return process


def test_nothing_is_lost_or_doubled(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_MCP_HOOK_DAYS", "36500")
    chosen = settings.load({"data_dir": tmp_path, "embedder": "none", "durability": "normal"}).settings
    with open_app(chosen, serving=False) as app:
        caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset(app.families))

        def texts(name: str) -> list[str]:
            chosen = Filter(source="hook", session=f"claude-code:{name}")
            hits, _ = app.notes.reader.hits(caller, NoteQuery("", chosen, limit=2 * MESSAGES))
            return [hit.snippet for hit in reversed(hits)]

        both = [start_capture(tmp_path, project, name) for name in ("one", "two")]
        eventually(lambda: texts("one") and texts("two"))
        for process in both:
            process.kill()
            process.wait()
        first = len(texts("one"))
        for process in [start_capture(tmp_path, project, name) for name in ("one", "one", "two")]:
            assert process.wait(60) == 0
        for name in ("one", "two"):
            assert texts(name) == [f"{name} {number}" for number in range(MESSAGES)]
        assert first <= MESSAGES
        last, _ = app.conversations.reader.page(caller, ConversationFilter("shop"), 10)
        assert {one.id for one in last} == {"claude-code:one", "claude-code:two"}
