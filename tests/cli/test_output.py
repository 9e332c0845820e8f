"""Output for terminals, pipes and programs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memory_mcp import __main__
from memory_mcp.engines.files import data_directory
from tests import processes
from tests.processes import COMMAND, Process, environment
from tests.terminal import Terminal

TEXT = "The quick brown fox jumps over the lazy dog, and then it goes home to sleep."


def run(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    return processes.run(*arguments, env=environment(MEMORY_MCP_EMBEDDER="none", **env))


@pytest.fixture
def keyed(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A data directory with a key, and the key."""
    made = run("keys", "create", "--name", "laptop of Zoë", "--namespace", "work", "--data-dir", tmp_path, "--json")
    return tmp_path, json.loads(made.stdout)


@pytest.mark.parametrize("columns", [40, 80, 400])
def test_a_narrow_terminal_cuts_no_value(keyed: tuple[Path, dict[str, str]], columns: int) -> None:
    data_dir, key = keyed
    code, shown = Terminal("keys", "list", "--data-dir", data_dir, columns=columns, env={"NO_COLOR": "1"}).finish()
    assert code == 0
    for value in (key["id"], "laptop of Zoë", "work", "delete_memory, manage_links", key["created_at"]):
        assert value in shown
    assert "…" not in shown
    is_table = any(key["id"] in line and "laptop of Zoë" in line for line in shown.splitlines())
    assert is_table is (columns == 400)


def test_lines_end_between_words_at_a_narrow_terminal(tmp_path: Path) -> None:
    """Of lists, tables, sentences and errors. A path or a command to copy may be longer."""
    env = {"NO_COLOR": "1", "HOME": str(tmp_path)}
    _, shown = Terminal("connect", columns=50, env=env).finish()
    rows = [line.split() for line in shown.splitlines() if line.startswith(" ")]
    assert ["claude-code", "no", "no"] in rows
    assert "`memory-mcp connect CLIENT` shows the change, and\nasks before it writes.\n" in shown
    data_dir = tmp_path / "data"
    ref = run("add", TEXT, "--data-dir", data_dir).stdout.strip()
    _, shown = Terminal("list", "--data-dir", data_dir, columns=50, env=env).finish()
    listed, more = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    assert listed == ref
    assert re.fullmatch(r" {2}[-0-9]{10} [:0-9]{5} {2}The quick brown .*…", more)
    assert len(more) == 50
    code, shown = Terminal("show", "x", "--data-dir", data_dir, columns=50, env=env).finish()
    assert code == 1
    assert shown.startswith(
        "memory-mcp: Nothing has the reference 'x'.\n`memory-mcp list` and `memory-mcp search` show\nreferences such as"
    )
    _, shown = Terminal("rm", ref, "--yes", "--data-dir", data_dir, columns=50, env=env).finish()
    assert shown.splitlines()[-1] == f"memory-mcp rm --undo {ref} --data-dir {data_dir}"
    on_path = env | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for verb in ([], ["serve", "--data-dir", Path(__file__).parent]):
        _, shown = Terminal(*verb, columns=60, env=on_path).finish()
        assert max(map(len, shown.splitlines())) <= 60


def test_output_that_cannot_be_written_is_one_sentence(keyed: tuple[Path, dict[str, str]]) -> None:
    arguments = ["keys", "list", "--data-dir", keyed[0]]
    with (
        Path("/dev/full").open("w") as full,
        Process(arguments, stdout=full, stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        assert process.stderr.read() == "memory-mcp: The output cannot be written (No space left on device).\n"
        assert process.wait(60) == 1


def test_a_pipe_gets_one_line_for_each_key(keyed: tuple[Path, dict[str, str]]) -> None:
    data_dir, key = keyed
    _, line = run("keys", "list", "--data-dir", data_dir).stdout.splitlines()
    assert line.split()[0] == key["id"]
    assert key["created_at"] in line


def test_no_color_is_heeded(keyed: tuple[Path, dict[str, str]]) -> None:
    data_dir, _ = keyed
    for arguments in (["doctor", "--data-dir", data_dir], ["keys", "list", "--help"]):
        _, shown = Terminal(*arguments, env={"NO_COLOR": "1"}).finish()
        assert not [code for code in ("\x1b[3", "\x1b[9") if code in shown], arguments


@pytest.mark.parametrize(
    "arguments",
    [["keys", "list"], ["keys", "list", "--json"], ["config"], ["stats"], ["--help"], ["serve", "--help"]],
)
def test_a_reader_that_leaves_is_no_error(keyed: tuple[Path, dict[str, str]], arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    env = environment(MEMORY_MCP_EMBEDDER="none", MEMORY_MCP_DATA_DIR=str(keyed[0]))
    with os.fdopen(writing, "wb") as gone, Process(arguments, stdout=gone, stderr=subprocess.PIPE, env=env) as left:
        assert left.stderr is not None
        assert left.stderr.read() == ""
    assert left.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x"],
        ["show", "memory://vault/x"],
        ["list"],
        ["list", "conversations"],
        ["rm", "memory://vault/x", "--yes"],
        ["hook", "--explain"],
        ["ps"],
        ["stop"],
        ["stats"],
        ["keys", "list"],
        ["keys", "revoke", "x"],
        ["users", "list"],
        ["users", "link"],
        ["stores", "list"],
        ["portal", "list"],
        ["graph", "export", "x"],
        ["graph", "picture", "x"],
        ["sync", "status"],
        ["models", "status"],
        ["doctor"],
        ["migrate"],
        ["backup", "never.zip"],
        ["export", "never"],
    ],
)
@pytest.mark.parametrize("is_flag", [True, False], ids=["flag", "variable"])
def test_a_misspelt_data_directory_is_not_created(tmp_path: Path, arguments: list[str], is_flag: bool) -> None:
    missing = tmp_path / "typo"
    given = ["--data-dir", missing] if is_flag else []
    env = environment(**({} if is_flag else {"MEMORY_MCP_DATA_DIR": str(missing)}))
    done = processes.run(*arguments, *given, "--json", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    error = json.loads(done.stderr)
    assert error["error"] == "not_found"
    assert str(missing) in error["message"]
    assert "--data-dir" in error["hint"]
    assert not list(tmp_path.iterdir())


def test_a_tilde_that_names_no_user_is_a_part_of_the_name(tmp_path: Path) -> None:
    """As in a shell, which passes it on as it is."""
    done = processes.run("list", "--data-dir", "~no-such-user/x", cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"memory-mcp: There is no data directory {tmp_path}/~no-such-user/x")
    run("add", TEXT, "--data-dir", tmp_path / "data")
    for verb, name in (("backup", "~memory.zip"), ("export", "~memory")):
        done = processes.run(verb, name, "--data-dir", tmp_path / "data", cwd=tmp_path, env=environment())
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / name).exists()


def test_options_may_stand_before_the_verb(tmp_path: Path) -> None:
    for options in (["--data-dir", tmp_path / "typo", "--json"], ["--json", f"--data-dir={tmp_path / 'typo'}"]):
        done = processes.run(*options, "list", cwd=tmp_path, env=environment())
        assert (done.returncode, json.loads(done.stderr)["error"]) == (1, "not_found")
    assert not list(tmp_path.iterdir())


def test_a_client_with_an_unknown_option_creates_no_data_directory(tmp_path: Path) -> None:
    relayed = environment(MEMORY_MCP_SHARED="auto")
    done = processes.run("--familys", "notes", "--data-dir", tmp_path / "new", cwd=tmp_path, env=relayed)
    assert done.returncode == 2
    assert "Did you mean '--families'?" in done.stderr
    assert not list(tmp_path.iterdir())


def test_ctrl_c_at_the_start_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "_run", interrupt)
    with pytest.raises(SystemExit) as ended:
        __main__.main(["list"])
    assert (ended.value.code, capsys.readouterr().err) == (130, "memory-mcp: Interrupted.\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["search", "x"], 1),
        (["serve", "--transport", "http", "--port", "0"], 2),
        (["hub", "--port", "0"], 2),
        ([], 2),
        (["restore", "x.zip"], 2),
        (["connect", "cursor", "--yes"], 2),
    ],
)
def test_a_folder_of_other_files_does_not_become_a_data_directory(
    tmp_path: Path, arguments: list[str], code: int
) -> None:
    (tmp_path / "letter.txt").write_text("Dear Zoë")
    done = run(*arguments, "--data-dir", tmp_path, MEMORY_MCP_SHARED="auto")
    assert done.returncode == code
    assert "is not a data directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_folder_that_another_process_has_begun_to_use_may_become_a_data_directory(tmp_path: Path) -> None:
    for name in ("in-use.lock", "server.log", "hooks.jsonl", ".0123.memory-mcp-part", "config.toml", "lost+found"):
        (tmp_path / name).touch()
    for name in ("shared", "servers", "backups"):
        (tmp_path / name).mkdir()
    assert data_directory.is_usable(tmp_path)
    (tmp_path / "server.db-wal").touch()
    assert not data_directory.is_usable(tmp_path)
    (tmp_path / "restore.json").touch()  # a restore that was killed has moved the marker away
    assert data_directory.is_usable(tmp_path)


def test_serve_and_hub_have_the_same_help_as_the_rest(tmp_path: Path) -> None:
    wide = {"COLUMNS": "200", "TERMINAL_WIDTH": "200"}
    serve, hub, keys = (run(*verb, "--help", **wide).stdout for verb in (["serve"], ["hub"], ["keys", "create"]))
    for text in (serve, hub, keys):
        assert "╭─ Options ─" in text
        assert "<bool>" not in text
    assert "stdio|http" in serve
    assert "[default: 8765]" in serve
    assert "[default: 8766]" in hub
    assert "memory-mcp-hub" in hub
    assert run("--transport", "http", "-h", **wide).stdout == serve
    assert "--json" in run("config", "--help", **wide).stdout


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    done = run("serve", "--prot", "1", "--data-dir", tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "memory-mcp: '--prot' is not an option of this command. Did you mean '--port'? "
        "`memory-mcp serve --help` lists the options.\n"
    )
    refused = run("config", "--bogus", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]) == (2, "invalid")


def test_alone_at_a_terminal_it_says_what_to_type(tmp_path: Path) -> None:
    code, shown = Terminal(env={"MEMORY_MCP_DATA_DIR": str(tmp_path / "none")}).finish()
    assert code == 0
    for verb in ("connect", "open", "add", "search", "list", "--help"):
        assert f"memory-mcp {verb}" in shown
    assert not list(tmp_path.iterdir())


def test_hook_at_a_terminal_says_what_it_is_for(tmp_path: Path) -> None:
    code, shown = Terminal("hook", env={"MEMORY_MCP_DATA_DIR": str(tmp_path / "none")}).finish()
    assert code == 0
    assert "`memory-mcp hook --explain`" in shown
    assert not list(tmp_path.iterdir())


def test_serve_at_a_terminal_says_that_it_waits(tmp_path: Path) -> None:
    terminal = Terminal("serve", "--data-dir", tmp_path)
    terminal.read_until("memory-mcp connect")
    terminal.process.terminate()
    terminal.finish()


def test_alone_without_a_terminal_it_serves(tmp_path: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    env = environment(MEMORY_MCP_DATA_DIR=str(tmp_path), MEMORY_MCP_EMBEDDER="none")
    done = subprocess.run(
        COMMAND, input=json.dumps(request) + "\n", capture_output=True, text=True, env=env, check=True
    )
    assert json.loads(done.stdout)["id"] == 1
