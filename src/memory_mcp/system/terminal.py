"""Texts for a terminal: their lines end between words."""

import os
import re
from typing import TextIO

WIDTH = 80  # in columns, if the terminal does not say
_WORD = re.compile(r"`[^`]+`\S*|(?<=: )memory-mcp .+|\S+")


def wrap(text: str, out: TextIO) -> str:
    """The text with lines that fit a terminal. A pipe or a file gets the text as it is.

    A command to type, in backticks or after a colon, and a path stay on one line, even a longer one: people copy them.
    """
    if not out.isatty():
        return text
    width = _width(out)
    return "\n".join(line if len(line) <= width else _wrap_line(line, width) for line in text.split("\n"))


def _width(out: TextIO) -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or WIDTH
    except ValueError:
        pass
    try:
        return os.get_terminal_size(out.fileno()).columns or WIDTH
    except OSError:
        return WIDTH


def _wrap_line(line: str, width: int) -> str:
    """The further lines are indented as the first."""
    indent = line[: len(line) - len(line.lstrip())]
    lines = [indent]
    for word in _WORD.findall(line):
        if lines[-1] == indent:
            lines[-1] += word
        elif len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(indent + word)
    return "\n".join(lines)
