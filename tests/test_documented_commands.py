"""Every command in README.md and docs/ is run as it is written, in an empty home and with `memory-mcp` on PATH."""

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_server import command_on_path
from tests.conversations.sample import keep_conversations
from tests.terminal import Terminal

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(sh|python)\n(.+?)^```", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    r"make test$": "runs this",
    r"make (install|run)$|uvx --from \.|uv tool install ": (
        "installs packages; tests/install/test_readme.py runs all of it in `make install-check`"
    ),
    r"memory-mcp models pull": "downloads 35 MB; tests/install/test_readme.py, tests/services/embedding",
    r"\. \.venv/bin/activate$": "the same environment is on PATH",
    r"memory-mcp (serve|hub) ": "runs until it is ended; tests/test_documented_servers.py",
    r"memory-mcp sync (link|now|enable)": "needs a hub; tests/test_documented_servers.py",
    r"claude ": "needs Claude Code; tests/deploy/test_claude_code_plugin.py",
    r"(useradd|git clone|install -d|cp|as-memory\S*|systemctl) ": "needs root; tests/deploy/test_service.py",
    r"docker |    -": "needs a container engine; tests/deploy takes the steps of the image",
}
FILLED_IN = {
    "clients.md": ("mmcp_…", '"$(field key)"'),
    "command-line.md": ("conversations:my-project", "conversations:shop"),
    "http.md": ("revoke ID", 'revoke "$(field id)"'),
}
"""For a page, what stands for a value of the reader, and that value."""
FIELD = """field() {
    memory-mcp keys create --name other --json | python -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}"""
"""A shell function: a field of a new key."""
PREPARATION = {
    "README.md": 'memory-mcp add "We back up nightly"',
    "command-line.md": """
        memory-mcp add --family vault --key deploy-steps "Tag, then push"
        memory-mcp stores add diary ~/diary
        memory-mcp add --family stores --store diary --path days/may "Sunny"
    """,
    "graph.md": 'echo \'{"type":"entity","name":"Ann","entityType":"person","observations":[]}\' > memory.jsonl',
    "http.md": 'memory-mcp add "A data directory"',
    "import.md": """
        echo '{"type":"entity","name":"Ann","entityType":"person","observations":[]}' > ~/memory.jsonl
        mkdir -p ~/basic-memory ~/Downloads && echo "# Tea" > ~/basic-memory/tea.md
        echo '[{"conversations_memory": "Likes tea.", "account_uuid": "a"}]' > memories.json
        python -m zipfile -c ~/Downloads/data-2026-11-15.zip memories.json
    """,
    "shared-server.md": 'memory-mcp add "A data directory"',
    "stores.md": "mkdir -p ~/Documents/Obsidian",
    "upkeep.md": 'memory-mcp add "We back up nightly"',
}
TYPED = {"clients.md": 3 * "\ny\nn\n" + "y\n", "command-line.md": 2 * "y\n"}
"""The answers: of `connect` which profile, whether to write, and whether to add hooks; of `rm` whether to delete."""


def reason(line: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, line)), None)


def blocks(page: Path) -> list[str]:
    """Each block as a part of a shell script, without what is not run."""
    parts = []
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            if "chdb" not in text:  # that one needs an exported portal: tests/families/portals/test_files.py
                parts.append(f"python - <<'END'\n{text}END")
        else:
            written = text.replace(*FILLED_IN.get(page.name, ("", "")))
            parts.append("\n".join(line for line in written.splitlines() if line and not reason(line)))
    return [part for part in parts if part]


@pytest.fixture(scope="module")
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as short, command_on_path(Path(short)) as folder:
        yield f"{folder}:{BIN}:/usr/bin:/bin"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_the_commands_work_as_written(page: Path, tmp_path: Path, path: str) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work, home / "diary"):
        folder.mkdir()
    if page.name == "command-line.md":
        keep_conversations(home / ".local" / "share" / "memory-mcp", tmp_path)
    script = tmp_path / "page.sh"
    lines = ["trap 'memory-mcp stop' EXIT", "set -ex", FIELD, PREPARATION.get(page.name, ""), *blocks(page)]
    script.write_text("\n".join([*lines, "trap - EXIT", "memory-mcp stop", "echo All of it works.", ""]))
    own = {"HOME": str(home), "PATH": path, "EDITOR": "true", "NO_COLOR": "1", "DISPLAY": ""}
    own |= {"MEMORY_MCP_PORT": "0", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "", "BROWSER": ""}
    terminal = Terminal(script, program=["/bin/bash"], columns=200, env=own, cwd=work)
    terminal.type(TYPED.get(page.name, ""))
    code, shown = terminal.finish()
    assert code == 0, shown
    assert "All of it works." in shown
    assert "Traceback" not in shown


def test_every_reason_is_needed() -> None:
    lines = [line for page in PAGES for _, text in BLOCK.findall(page.read_text("utf-8")) for line in text.splitlines()]
    assert [pattern for pattern in NOT_RUN if not any(re.match(pattern, line) for line in lines)] == []
    for page, (placeholder, _) in FILLED_IN.items():
        assert placeholder in (ROOT / "docs" / page).read_text(encoding="utf-8")
