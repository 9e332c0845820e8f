"""Has basic-memory write notes into a project: run by the Python that has it, with the folder to write to.

Through its command line, as an agent's client would: `basic-memory tool write-note`.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
HOME = FOLDER / "home"
PROJECT = FOLDER / "basic-memory"
NOTES = [
    (
        "Coffee Brewing",
        "coffee",
        "# Coffee Brewing\n\n- [method] Pour over is best #brewing\n- uses [[V60 Dripper]]\n",
        ("coffee", "brewing"),
    ),
    ("V60 Dripper", "coffee/gear", "# V60 Dripper\n\n- [material] ceramic\n- part_of [[Coffee Brewing]]\n", ("gear",)),
    ("Größe & Maß", "", "Ein Satz ohne Überschrift.\n", ()),
]


def main() -> None:
    HOME.mkdir(parents=True)
    environment = os.environ | {
        "HOME": str(HOME),
        "BASIC_MEMORY_HOME": str(PROJECT),
        "BASIC_MEMORY_CONFIG_DIR": str(HOME / ".basic-memory"),
        "BASIC_MEMORY_SYNC_CHANGES": "false",
    }
    program = Path(sys.executable).parent / "basic-memory"
    for title, folder, content, tags in NOTES:
        where = ["--title", title, "--folder", folder]
        command: list[str | Path] = [
            program,
            "tool",
            "write-note",
            *where,
            *(word for tag in tags for word in ("--tags", tag)),
        ]
        subprocess.run(command, input=content, text=True, env=environment, check=True)


main()
