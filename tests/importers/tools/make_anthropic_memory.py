"""Has the memory tool of Anthropic's SDK write files: run by the Python that has it, with the folder to write to."""

import sys
from pathlib import Path

from anthropic.tools import BetaLocalFilesystemMemoryTool
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818StrReplaceCommand,
)

FILES = {
    "/memories/preferences.xml": "<preferences>\n  <language>Python</language>\n</preferences>\n",
    "/memories/notes/meeting.txt": "Met with Ann.\nNext: Tuesday.\n",
    "/memories/notes/plan.md": "# Plan\n\n- ship\n",
    "/memories/gone.txt": "not for long",
}


def main(folder: Path) -> None:
    tool = BetaLocalFilesystemMemoryTool(str(folder / "memory"))
    for path, text in FILES.items():
        tool.create(BetaMemoryTool20250818CreateCommand(command="create", path=path, file_text=text))
    tool.str_replace(
        BetaMemoryTool20250818StrReplaceCommand(
            command="str_replace", path="/memories/notes/meeting.txt", old_str="Tuesday", new_str="Wednesday"
        )
    )
    tool.insert(
        BetaMemoryTool20250818InsertCommand(
            command="insert", path="/memories/notes/plan.md", insert_line=2, insert_text="- test\n"
        )
    )
    tool.delete(BetaMemoryTool20250818DeleteCommand(command="delete", path="/memories/gone.txt"))


main(Path(sys.argv[1]))
