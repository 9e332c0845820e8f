import json
import subprocess
from pathlib import Path

import pytest

from memory_mcp import __version__
from tests import processes
from tests.processes import COMMAND, environment


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return processes.run(*arguments, env=environment(**env))


def test_help_names_the_verbs_and_serving() -> None:
    fresh = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, env=environment())
    for helped in (fresh, run("-h")):
        assert helped.returncode == 0
        for verb in ("serve", "config", "keys"):
            assert verb in helped.stdout
    assert "--transport" in run("serve", "--help").stdout
    assert run("--version").stdout.strip() == f"memory-mcp {__version__}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["bogus"],
        ["keys"],
        ["keys", "create"],
        ["serve", "extra"],
        ["--port", "x"],
        ["--transport", "pigeon"],
        ["--scopes", "all"],
        ["--data-dir", ""],
        ["config", "--port", "x"],
        ["keys", "create", "--name", "a", "--expires", "soon"],
        ["keys", "create", "--name", "a", "--scopes", "everything"],
        ["keys", "create", "--name", "a", "--families", "poems"],
    ],
)
def test_bad_usage_exits_with_two(tmp_path: Path, arguments: list[str]) -> None:
    done = run(*arguments, MEMORY_MCP_DATA_DIR=str(tmp_path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--families", "poems"], ["keys", "revoke", "nope"], ["keys", "create", "--name", ""]]
)
def test_errors_exit_with_one_and_say_why(tmp_path: Path, arguments: list[str]) -> None:
    done = run(*arguments, MEMORY_MCP_DATA_DIR=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("memory-mcp: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["x" * 300, "file/inside"])
def test_a_data_directory_that_cannot_be_created_is_explained(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run("--data-dir", str(tmp_path / name))
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_without_stdin_it_says_what_it_needs(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("memory-mcp: Over stdio")


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    where = ["--data-dir", str(tmp_path)]
    made = json.loads(
        run("keys", "create", "--name", "ci", "--scopes", "read-only", "--expires", "90d", "--json", *where).stdout
    )
    assert made["key"].startswith(f"mmcp_{made['id']}_")
    assert made["scopes"] == ["read_memory"]

    [listed] = json.loads(run("keys", "list", "--json", *where).stdout)["keys"]
    assert listed["id"] == made["id"]
    assert made["key"] not in json.dumps(listed)
    assert "ci" in run("keys", "list", *where).stdout
    assert run("keys", "revoke", made["id"], *where).returncode == 0
    [revoked] = json.loads(run("keys", "list", "--json", *where).stdout)["keys"]
    assert revoked["revoked_at"]


def test_a_data_directory_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run("--data-dir", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "data directory" in done.stderr


def test_a_key_can_be_revoked_while_the_vault_is_damaged(tmp_path: Path) -> None:
    where = ["--data-dir", str(tmp_path)]
    made = json.loads(run("keys", "create", "--name", "lost", "--json", *where).stdout)
    (tmp_path / "memory.db").write_bytes(b"no database, and long enough to be taken for one" * 50)
    assert run("keys", "revoke", made["id"], *where).returncode == 0
