"""Changes of files, shown to the user before they are written."""

import sys

import typer
from rich.text import Text

from memory_mcp.cli.output import confirm, console, print_text
from memory_mcp.clients.operations import ConfigPlan
from memory_mcp.errors import Invalid
from memory_mcp.text.invisible_characters import show

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def confirm_change(plan: ConfigPlan) -> None:
    if not sys.stdin.isatty():
        raise Invalid("Nothing was written: stdin is not a terminal. --dry-run shows all changes, --yes writes them.")
    if not confirm(f"Write this to {plan.file}?"):
        print_text("Nothing was written.")
        raise typer.Exit(1)


def print_diff(lines: list[str]) -> None:
    out = console()
    for line in lines:
        is_name = line.startswith(("--- ", "+++ "))
        out.print(Text(show(line), style="bold" if is_name else COLOURS.get(line[:1], "")), soft_wrap=True)
