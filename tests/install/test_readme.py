"""The first command of the README, as it is written: a clone, an empty home, and PATH as a user with uv has it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.distribution import ROOT, UV, copy_tree
from tools.install_ways import User

SECTION = (ROOT / "README.md").read_text(encoding="utf-8").split("## Install\n")[1].split("\n## ")[0]
FIRST, *_ = re.findall(r"^```sh\n(.+?)^```", SECTION, re.MULTILINE | re.DOTALL)
OUT_OF_REACH = re.compile("error sending request|dns error|Could not fetch URL|No matching distribution")


def environment(home: Path) -> dict[str, str]:
    """`uv` is found by its name; `python3` is the one of these tests. Servers take free ports."""
    programs = home / "programs"
    programs.mkdir(parents=True)
    for program in (Path(UV), Path(UV).with_name("uvx")):
        (programs / program.name).symlink_to(program)
    (programs / "python3").symlink_to(sys.executable)
    found = User(home, Path.home() / ".cache").environment(MEMORY_MCP_PORT="0")
    return found | {"PATH": f"{programs}:{found['PATH']}", "UV_PYTHON": sys.executable}


def run(script: str, clone: Path, home: Path) -> str:
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=clone,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode and OUT_OF_REACH.search(done.stdout):
        pytest.skip("The package registry is out of reach, and the caches do not hold every package.")
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


def test_the_first_command_lists_the_clients_and_how_to_go_on(tmp_path: Path) -> None:
    clone = copy_tree(tmp_path / "clone")
    shown = run(FIRST, clone, tmp_path / "home")
    assert re.search(r"claude-code +no +no", shown)
    assert f"`uvx --from {clone} memory-mcp connect CLIENT` shows the change" in shown
