"""The help of a verb at a terminal that is too narrow for Typer's columns: no word of it is cut."""

from collections.abc import Iterable
from contextlib import redirect_stdout
from inspect import cleandoc
from io import StringIO
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

CUT = "…"  # what Rich puts in place of the rest of a word


def print_help(command: Any, context: Any) -> None:
    """Print Typer's help if it fits, or else each option on a line of its own, with its text below."""
    with redirect_stdout(StringIO()) as trial:  # Rich knows the terminal's width without it
        command.print_columns(context)
    if CUT in trial.getvalue():
        _print_lines(command, context)
    else:
        command.print_columns(context)


def _print_lines(command: Any, context: Any) -> None:
    out = Console(highlight=False)
    out.print(Padding(Text(" ".join(command.get_usage(context).split()), "bold"), 1))
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        out.print(Padding(_text(paragraph), (0, 1, 1, 1)))
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            records[parameter.param_type_name].append(record)
    _print_panel(out, "Arguments", records["argument"])
    _print_panel(out, "Options", records["option"])
    commands = getattr(command, "commands", {})
    _print_panel(out, "Commands", ((name, cleandoc(one.help or "").split("\n\n")[0]) for name, one in commands.items()))
    if command.epilog:
        out.print(Padding(_text(command.epilog), 1))


def _print_panel(out: Console, title: str, records: Iterable[tuple[str, str]]) -> None:
    lines = [part for name, text in records for part in (Text(name, "bold cyan"), Padding(_text(text), (0, 0, 0, 2)))]
    if lines:
        out.print(Panel(Group(*lines), title=title, title_align="left", border_style="dim"))


def _text(text: str) -> Text:
    return Text(" ".join(text.split()))
