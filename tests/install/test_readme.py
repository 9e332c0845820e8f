"""The commands of the README that install it, as they are written: a clone, an empty home, and PATH as a user with uv
has it. `make test` runs the first; `make install-check` runs all, which installs 1.1 GB twice."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

import httpx
import pytest
from tools.distribution import ROOT, UV, copy_tree
from tools.install_ways import User

from memory_mcp import __version__
from tests.exhaustive import IS_SOAK
from tests.install.product import WEB

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST, TO_KEEP, WITHOUT_UV, RUN, *_ = re.findall(r"^```sh\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)
OTHER_WAYS = re.findall(r"`((?:uv tool|pipx|pip) install \.)`", (ROOT / "docs" / "install.md").read_text("utf-8"))
OUT_OF_REACH = re.compile("error sending request|dns error|Could not fetch URL|No matching distribution")
SERVER_TIMEOUT_S = 60.0

only_in_install_check = pytest.mark.skipif(not IS_SOAK, reason="`make install-check` runs it: it installs 1.1 GB.")


def environment(home: Path) -> dict[str, str]:
    """`uv` is found by its name; `python3` is the one of these tests. Servers take free ports."""
    programs = home / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    tools = {name: Path(UV).with_name(name) for name in ("uv", "uvx", "pipx")} | {"python3": Path(sys.executable)}
    for name, program in tools.items():
        (programs / name).unlink(missing_ok=True)
        (programs / name).symlink_to(program)
    found = User(home, Path.home() / ".cache").environment(MEMORY_MCP_PORT="0")
    return found | {"PATH": f"{programs}:{found['PATH']}", "UV_PYTHON": sys.executable}


def start(script: str, clone: Path, home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["bash", "-ec", script],
        cwd=clone,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(script: str, clone: Path, home: Path) -> str:
    process = start(script, clone, home)
    shown, _ = process.communicate()
    if process.returncode and OUT_OF_REACH.search(shown):
        pytest.skip("The package registry is out of reach, and the caches do not hold every package.")
    assert process.returncode == 0, shown
    assert "Traceback" not in shown
    return shown


def sign_in(shown: str) -> None:
    """With the link that was printed."""
    [link] = re.findall(r"http://127\.0\.0\.1:\d+/\S*sign-in\S*", shown)
    assert httpx.get(link, follow_redirects=True).text == (WEB / "index.html").read_text(encoding="utf-8")


def test_the_first_command_lists_the_clients_and_how_to_go_on(tmp_path: Path) -> None:
    clone = copy_tree(tmp_path / "clone")
    shown = run(FIRST, clone, tmp_path / "home")
    assert re.search(r"claude-code +no +no", shown)
    assert f"`uvx --from {clone} memory-mcp connect CLIENT` shows the change" in shown


@only_in_install_check
def test_uv_installs_it_to_keep_with_tables_and_search_by_meaning(tmp_path: Path) -> None:
    clone, home = copy_tree(tmp_path / "clone"), tmp_path / "home"
    try:
        sign_in(run(TO_KEEP, clone, home))
        assert "No problems found." in run("memory-mcp doctor", clone, home)
    finally:
        run("memory-mcp stop", clone, home)


@only_in_install_check
@pytest.mark.parametrize("command", OTHER_WAYS)
def test_a_clone_is_installed_in_other_ways(command: str, tmp_path: Path) -> None:
    clone, home = copy_tree(tmp_path / "clone"), tmp_path / "home"
    own = "python3 -m venv ~/own && . ~/own/bin/activate && " if command.startswith("pip ") else ""
    shown = run(f"{own}{command}\nmemory-mcp --version\nfive-memories --version", clone, home)
    assert shown.count(f"memory-mcp {__version__}\n") == 2


def test_docs_name_the_other_ways() -> None:
    assert len(OTHER_WAYS) == 3


@only_in_install_check
def test_make_installs_and_runs_it(tmp_path: Path) -> None:
    clone, home = copy_tree(tmp_path / "clone"), tmp_path / "home"
    shown = run(WITHOUT_UV, clone, home)
    assert re.search(r"claude-code +no +no", shown)
    assert "3 of 3" in shown
    with start(RUN, clone, home) as server:
        printed = ""
        for line in cast(IO[str], server.stdout):
            printed += line
            if "VS Code" in line:
                break
        sign_in(printed)
        os.killpg(server.pid, signal.SIGINT)  # as Ctrl-C does
        rest, _ = server.communicate(timeout=SERVER_TIMEOUT_S)
    assert rest.strip() in ("", "^C")
