"""memory-mcp connect, as a process, on a home folder of its own."""

import json
import os
import pty
import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.clients import CLIENTS, ClientProgram, Http, Machine, Stdio, jsonc, toml
from memory_mcp.clients.profiles import PROFILES, Profile
from tests import processes, wire
from tests.processes import Process, environment
from tests.wire import HELLO

KEY = "mmcp_abcdefghijkl_" + "s" * 43
README = Path(__file__).parents[2] / "README.md"
CLIENTS_MD = README.parent / "docs" / "clients.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def run(home: Path, *arguments: str, output: str = "") -> subprocess.CompletedProcess[str]:
    return processes.run("connect", *arguments, stdin=output, env=own(home), cwd=home)


def own(home: Path) -> dict[str, str]:
    moved = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME")
    kept = {name: value for name, value in environment().items() if name not in moved}
    return kept | {"HOME": str(home), "COLUMNS": "200", "TERM": "xterm"}


def run_json(home: Path, *arguments: str) -> dict[str, Any]:
    done = run(home, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_entry_it_writes_starts_a_server(home: Path, tmp_path: Path) -> None:
    written = run_json(home, "cursor", "--yes", "--data-dir", str(tmp_path / "data"))
    assert written["written"]
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["memory"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-2:] == ["--data-dir", str(tmp_path / "data")]
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n"
    done = subprocess.run(
        [entry["command"], *entry["args"]], input=line, capture_output=True, text=True, cwd="/", env=own(home)
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "memory-mcp"
    assert (tmp_path / "data").is_dir()


def test_it_shows_the_change_and_writes_nothing_without_a_yes(home: Path) -> None:
    done = run(home, "codex")
    assert done.returncode == 1
    assert "+[mcp_servers.memory]" in done.stdout
    assert "--yes" in done.stderr
    assert run(home, "codex", "--dry-run").returncode == 0
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "is_written", "families"),
    [("\ny\n", True, None), ("files\ny\n", True, "stores,recall"), ("\nn\n", False, None)],
)
def test_a_terminal_gets_prompts_and_colours(home: Path, answer: str, is_written: bool, families: str | None) -> None:
    ours, theirs = pty.openpty()
    process = Process(["connect", "zed"], stdin=theirs, stdout=theirs, env=own(home), cwd=home)
    os.close(theirs)
    os.write(ours, answer.encode())
    shown = b""
    while True:
        try:
            part = os.read(ours, 10_000)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == (0 if is_written else 1)
    assert b"\x1b[32m" in shown
    file = home / ".config" / "zed" / "settings.json"
    assert file.exists() == is_written
    if is_written:
        [entry] = json.loads(file.read_text())["context_servers"].values()
        assert entry["args"][-2:] == (["--families", families] if families else entry["args"][-2:])
        assert ("--families" in entry["args"]) == (families is not None)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_a_profile_starts_a_server_with_as_many_tools_as_the_readme_says(
    home: Path, tmp_path: Path, profile: Profile
) -> None:
    run_json(home, "cursor", "--yes", "--profile", profile.name, "--data-dir", str(tmp_path / "data"))
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["memory"]
    with closing(wire.Stdio.start(tmp_path / "data", *profile.arguments)) as server:
        tools = server.ask("tools/list")["result"]["tools"]
    assert entry["args"][-len(profile.arguments) or len(entry["args"]) :] == list(profile.arguments)
    shown = [tool for tool in tools if tool["_meta"].get("ui", {}).get("visibility") != ["app"]]
    size = round(len(json.dumps(shown, separators=(",", ":"))) / 4)
    [row] = [line for line in README.read_text().splitlines() if line.startswith(f"| `{profile.name}` |")]
    _, _, count, tokens = (cell.strip() for cell in row.strip("|").split("|"))
    assert int(count) == len(shown)
    assert abs(int(tokens.replace(",", "")) - size) <= 150, size


def test_a_profile_does_not_go_with_a_running_server(home: Path) -> None:
    done = run(home, "cursor", "--yes", "--http", "http://127.0.0.1:8765", "--profile", "notes")
    assert done.returncode == 2
    assert "keys create --families" in done.stderr


def test_connecting_twice_changes_nothing_and_undo_restores(home: Path) -> None:
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_text('{\n    // mine\n    "theme": "Dracula",\n}\n')
    assert run_json(home, "gemini-cli", "--yes")["changed"]
    again = run(home, "gemini-cli")
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "Nothing to do")
    assert run_json(home, "gemini-cli", "--undo", "--yes")["written"]
    assert file.read_text() == '{\n    // mine\n    "theme": "Dracula",\n}\n'
    assert "Nothing to do" in run(home, "gemini-cli", "--undo").stdout


def test_http_takes_the_key_from_stdin_and_shows_it_nowhere(home: Path) -> None:
    done = run(home, "windsurf", "--http", "http://127.0.0.1:8765", "--key", "-", "--yes", output=KEY + "\n")
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout
    entry = json.loads((home / ".codeium" / "windsurf" / "mcp_config.json").read_text())["mcpServers"]["memory"]
    assert entry == {"serverUrl": "http://127.0.0.1:8765/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}


def test_without_a_client_it_lists_them(home: Path) -> None:
    run_json(home, "vscode", "--project", "--yes")
    listed = {client["client"]: client for client in run_json(home)["clients"]}
    assert list(listed) == list(CLIENTS)
    assert {name for name, client in listed.items() if client["connected"]} == {"vscode"}
    assert listed["vscode"]["project_names"] == ["memory"]
    shown = run(home).stdout
    assert all(name in shown for name in CLIENTS)
    assert "memory (project)" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["emacs"],
        ["--undo"],
        ["cursor", "--key", KEY],
        ["cursor", "--http", "ftp://x"],
        ["cursor", "--http", "http://x", "--key", "-"],
        ["cursor", "--http", "http://x", "--data-dir", "d"],
        ["cursor", "--name", "a b"],
        ["cursor", "--json"],
    ],
)
def test_bad_usage_exits_with_two(home: Path, arguments: list[str]) -> None:
    done = run(home, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert list(home.iterdir()) == []


def test_errors_exit_with_one_and_say_what_to_do(home: Path) -> None:
    (home / ".claude.json").write_text("{")
    done = run(home, "claude-code", "--yes")
    assert done.returncode == 1
    assert "Nothing was changed. Correct it, or add this yourself." in done.stderr
    assert (home / ".claude.json").read_text() == "{"
    assert run(home, "windsurf", "--project", "--yes").returncode == 1


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_the_docs_show_what_is_written(client: ClientProgram) -> None:
    [section] = re.findall(rf"^### {client.title}\n(.+?)(?=^##)", CLIENTS_MD.read_text(), re.DOTALL | re.MULTILINE)
    stdio, http = re.findall(r"```(?:json|toml)\n(.+?)```", section, re.DOTALL)
    value = toml.value if client.id == "codex" else jsonc.value
    assert value(stdio) == {client.section: {"memory": client.entry(Stdio("COMMAND"))}}
    assert value(http) == {client.section: {"memory": client.entry(Http("URL", "KEY"))}}
    assert client.file(Machine("linux", Path("/home"), Path("/here"), {})).name in section
    assert client.project_file is None or f"`{client.project_file}`" in section
