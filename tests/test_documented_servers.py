"""The commands in README.md and docs/ that run until they are ended, and those that need a hub, as they are written."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import pytest

from tests import processes
from tests.processes import Process, environment
from tests.test_documented_commands import BLOCK, PAGES

LINES = [
    (page.name, line.partition("  #")[0].strip())
    for page in PAGES
    for _, text in BLOCK.findall(page.read_text(encoding="utf-8"))
    for line in text.splitlines()
]
SERVING = [line for _, line in LINES if line.startswith("memory-mcp serve ")]
HUB, *OTHER_HUBS = [line for _, line in LINES if line.startswith("memory-mcp hub ")]
HUB_PORT = "8766"
IN_SYNC = [
    line for page, line in LINES if page == "sync.md" and line.startswith(("memory-mcp sync ", "memory-mcp keys "))
]


def words(line: str, home: Path) -> list[str]:
    """The arguments of a command, as a shell passes them."""
    return shlex.split(line.replace("~/", f"{home}/"))[1:]


def own(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return environment(HOME=str(home), XDG_DATA_HOME="", MEMORY_MCP_EMBEDDER="none", MEMORY_MCP_PORT="0")


def run(line: str, home: Path) -> str:
    done = processes.run(*words(line, home), env=own(home))
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def serving(line: str, home: Path, until: str) -> Iterator[str]:
    """What a server prints up to a line with a text. Ctrl-C then ends it."""
    process = Process(words(line, home), stdout=subprocess.PIPE, env=own(home))
    printed = ""
    try:
        for one in cast(IO[str], process.stdout):
            printed += one
            if until in one:
                break
        yield printed
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(processes.RUN_TIMEOUT_S) in (0, 130)  # 130: it had not begun to serve
    finally:
        process.kill()
        process.wait()
        cast(IO[str], process.stdout).close()


@pytest.mark.parametrize("line", sorted(set(SERVING)))
def test_a_server_starts_and_shows_its_public_address(line: str, tmp_path: Path) -> None:
    with serving(line, tmp_path, until="VS Code") as printed:
        public = words(line, tmp_path)[words(line, tmp_path).index("--public-url") + 1]
        assert f"{public}/" in printed


def test_nodes_sync_through_a_hub(tmp_path: Path) -> None:
    """Two plain nodes; then, for another user of the hub, two that encrypt."""
    assert OTHER_HUBS == []
    with serving(HUB.replace(HUB_PORT, "0"), tmp_path / "hub", until="sync link") as printed:
        [url] = set(re.findall(r"http://127\.0\.0\.1:\d+", printed))
        create, *plain, encrypting, decrypting = IN_SYNC
        filled = {f"http://127.0.0.1:{HUB_PORT}": url, "URL": url, "KEY": run(create, tmp_path / "hub").strip()}

        def fill(line: str) -> str:
            return re.sub("|".join(map(re.escape, filled)), lambda found: filled[found[0]], line)

        run('memory-mcp add "We back up nightly"', tmp_path / "first")
        for node in ("first", "second"):
            for line in plain:
                run(fill(line), tmp_path / node)
        assert "We back up nightly" in run("memory-mcp list", tmp_path / "second")
        filled["mms_…"] = re.findall(r"mms_\S+", run(fill(encrypting), tmp_path / "third"))[0]
        run(fill(decrypting), tmp_path / "fourth")
        assert run("memory-mcp sync status --json", tmp_path / "fourth").count(url) == 1
