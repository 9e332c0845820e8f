"""Record docs/pictures/terminal.svg: real commands in an empty home, as a terminal that moves."""

import fcntl
import html
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "terminal.svg"
BIN = str(Path(sys.executable).parent)
COLUMNS = 96
COMMANDS = (
    "memory-mcp connect claude-code --yes",
    'memory-mcp add "We deploy on Fridays, after the backup. #ops"',
    'memory-mcp add --family vault --key rollback "git revert, then deploy again"',
    'memory-mcp search "when do we deploy?"',
    "memory-mcp list",
)
FIRST_LINE_S, LINE_S, COMMAND_S = 0.5, 0.12, 1.4  # when it appears: the first, each of an answer, each command


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "you"
        home.mkdir()
        lines = [line for command in COMMANDS for line in _run(command, home)]
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for _, line in lines:
        console.print(line, soft_wrap=False, overflow="ellipsis", no_wrap=True)
    svg = console.export_svg(title="memory-mcp", unique_id="terminal")
    PICTURE.write_text(_animate(svg, [is_command for is_command, _ in lines]), encoding="utf-8")


def _run(command: str, home: Path) -> list[tuple[bool, Text]]:
    """The command as typed, and what it printed at a terminal. The paths are those of a person called you."""
    prompt = Text.assemble(("$ ", "green"), (command, "bold"))
    printed = _printed(command, home).replace(str(home), "/home/you").replace(BIN, "/home/you/.local/bin")
    return [(True, prompt), *((False, Text.from_ansi(line)) for line in printed.splitlines()), (False, Text(""))]


def _printed(command: str, home: Path) -> str:
    env = {"HOME": str(home), "PATH": f"{BIN}:/usr/bin:/bin", "TERM": "xterm-256color"}
    env |= {"MEMORY_MCP_EMBEDDER": "none"}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(shlex.split(command), stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65_536):
            shown += part
    except OSError:  # Linux: the last process with the terminal has ended
        pass
    os.close(ours)
    if process.wait():
        raise SystemExit(f"{command}\n{shown.decode()}")
    return shown.decode().replace("\r\n", "\n")


def _animate(svg: str, is_command: list[bool]) -> str:
    """Each line appears at its time. Where nothing is animated, all lines are there from the start."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # it would be fetched from elsewhere
    at, rules = FIRST_LINE_S, ["@keyframes appear { from { opacity: 0 } to { opacity: 1 } }"]
    for number, starts in enumerate(is_command):
        at += COMMAND_S if starts and number else LINE_S
        mark = html.escape(f"url(#terminal-line-{number})")
        rules.append(f'[clip-path="{mark}"] {{ animation: appear 0.1s {at:.2f}s backwards }}')
    return svg.replace("</style>", "\n".join(["", *rules, "    </style>"]), 1)


if __name__ == "__main__":
    main()
