"""The process that a client calls: it never fails, never prints anything but an answer, and never takes long."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_mcp.hooks import client, records
from memory_mcp.system.operating_system import process_age_s
from tests.conversations.conftest import TRANSCRIPTS
from tests.events import eventually


def run(data_dir: Path, event: str, stdin: bytes, *more: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "memory_mcp", "hook", event, "--data-dir", str(data_dir), *more]
    env = os.environ | {"MEMORY_MCP_SHARED": "off"}
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, env=env)


@pytest.mark.parametrize(
    ("event", "stdin", "why"),
    [
        ("SessionStart", b"not JSON", "JSONDecodeError"),
        ("SessionStart", b"{}", "There is no session_id"),
        ("PreToolUse", b'{"session_id": "one"}', "PreToolUse is not an event"),
        ("", b"", "is not an event"),
        ("SessionStart", json.dumps({"session_id": "one", "cwd": "/a" * 100_000}).encode(), "cwd is not a path"),
        ("SessionStart", b'{"session_id": "one", "cwd": "/", "transcript_path": "/a\\u0000b"}', "is not a path"),
    ],
)
def test_whatever_goes_wrong_it_prints_nothing_and_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, stdin: bytes, why: str
) -> None:
    done = run(tmp_path, event, stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    [record] = records.last(str(tmp_path), 10)
    assert why in record["why"] or record["why"].startswith("it took more than")


def test_a_name_that_is_no_text_is_recorded_and_cut(tmp_path: Path) -> None:
    done = run(tmp_path, "", b"", "--client", "\udcff" + "x" * 5000)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    [record] = records.last(str(tmp_path), 10)
    assert record["client"] == "?" + "x" * (records.MAX_TEXT_CHARS - 1)


def test_a_data_directory_that_cannot_be_used_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file", "SessionStart", b'{"session_id": "one", "cwd": "/"}')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_capture_goes_on_after_the_client_has_its_answer(tmp_path: Path) -> None:
    payload = {"session_id": "one", "cwd": "/srv/billing", "transcript_path": str(TRANSCRIPTS / "claude-code.jsonl")}
    done = run(tmp_path, "SessionEnd", json.dumps(payload).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    eventually(lambda: any("stored 5 messages" in call["did"] for call in records.last(str(tmp_path), 10)))


def test_a_slow_answer_is_not_waited_for(tmp_path: Path) -> None:
    code = (
        "import threading; from memory_mcp.hooks import client; client.TIME_LIMIT_S = 0.1;"
        f"client.run(['SessionStart', '--data-dir', {str(tmp_path)!r}], lambda *given: threading.Event().wait())"
    )
    env = os.environ | {"MEMORY_MCP_SHARED": "off"}
    done = subprocess.run([sys.executable, "-c", code], input=b"{}", capture_output=True, timeout=60, env=env)
    assert (done.returncode, done.stdout) == (0, b"")
    assert records.last(str(tmp_path), 1)[0]["why"] == "it took more than 0.1 s"


def test_it_imports_the_standard_library_alone() -> None:
    code = "import sys; import memory_mcp.hooks.client; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()} - {"__mp_main__", "__main__"}
    own = {name for name in done.stdout.split() if name.startswith("memory_mcp.")}
    assert {name.split(".")[1] for name in own} == {"hooks", "relay", "system"}
    assert {name for name in own if ".system." in name} == {
        "memory_mcp.system.operating_system",
        "memory_mcp.system.unix_sockets",
    }
    assert not {"pydantic", "apsw", "platformdirs", "typing_extensions"} & loaded
    assert "dataclasses" not in loaded  # with `inspect` it takes two fifths of the imports' time


def test_the_record_rotates_and_passes_over_torn_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_FILE_BYTES", 300)
    for number in range(20):
        records.add(str(tmp_path), {"number": number, "refs": ["r"] * 50})
        with (tmp_path / records.FILE).open("a") as file:
            file.write('{"torn\n')
    found = records.last(str(tmp_path), 100)
    assert 0 < len(found) < 20
    assert found[0]["number"] == 19
    assert len(found[0]["refs"]) == records.MAX_REFS
    assert client.TIME_LIMIT_S < 2.0


def test_all_input_is_read_and_only_so_much_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_INPUT_BYTES", 100)
    monkeypatch.setattr(client, "READ_BYTES", 30)
    stdin = io.BytesIO(b"x" * 1000)
    assert client._read_input(stdin) == b"x" * 100
    assert stdin.read() == b""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say when a process started")
def test_the_time_that_a_process_took_to_start_counts() -> None:
    code = "from memory_mcp.system.operating_system import process_age_s; print(process_age_s())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < process_age_s()
