"""What verbs print: tables that fit the terminal, JSON, errors, and the end of a pipe."""

import errno
import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from memory_mcp.clients.model import as_typed
from memory_mcp.system.terminal import wrap
from memory_mcp.text.invisible_characters import escape_in_json, show


def console() -> Console:
    """For stdout. Only a terminal has lines of a certain width: text for a pipe or a file is not broken into lines."""
    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False)


def print_text(text: str = "", *, err: bool = False) -> None:
    """For people. Commands are shown as they can be typed. At a terminal, lines end between words."""
    typer.echo(wrap(show(as_typed(text)), sys.stderr if err else sys.stdout), err=err)


def print_content(text: str) -> None:
    """A memory's text: a pipe or a file gets it as it is stored, a terminal without characters that it would obey."""
    typer.echo(show(text) if sys.stdout.isatty() else text)


def confirm(question: str) -> bool:
    """Whether the answer is yes. It is no without one."""
    return typer.confirm(wrap(show(question), sys.stdout), default=False)


def print_json(value: Any) -> None:
    typer.echo(escape_in_json(json.dumps(value, ensure_ascii=False, indent=2, default=str)))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], numbers: Collection[str] = (), last_optional: bool = False
) -> None:
    """Print rows as a table. If the terminal is too narrow, the last column is left out if it is optional, and if that
    does not help each row is a block of lines. No value is ever cut.

    The columns in `numbers` are aligned to the right."""
    out = console()
    cells = [[_cell(value) for value in row] for row in rows]
    table, width = _table(out, columns, cells, numbers)
    if width > out.width and out.is_terminal and last_optional:
        table, width = _table(out, columns[:-1], [row[:-1] for row in cells], numbers)
    if not out.is_terminal:
        out.width = width
    if width <= out.width:
        out.print(table)
    else:
        _print_blocks(out, columns, cells)


def _table(
    out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str]
) -> tuple[Table, int]:
    """A table, and its width in columns of the terminal."""
    table = Table(box=None)
    for column in columns:
        table.add_column(column, no_wrap=True, justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table, Measurement.get(out, out.options.update(max_width=sys.maxsize), table).maximum


def print_row(out: Console, at: str, ref: str, text: str) -> None:
    """Print a memory on one line or, if a terminal is too narrow, on two: the reference alone, to copy it, then the
    rest, which a terminal gets cut to its width."""
    text = show(" ".join(text.split()))
    line = Text.assemble((f"{at}  ", "dim"), (ref, "cyan"), f"  {text}" if text else "")
    if out.is_terminal and line.cell_len > out.width:
        out.print(Text(ref, "cyan"), soft_wrap=True)
        line = Text.assemble((f"  {at}  ", "dim"), text)
        line.truncate(out.width, overflow="ellipsis")
    out.print(line, soft_wrap=True)


def _print_blocks(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = max(map(len, columns))
    for number, row in enumerate(rows):
        if number:
            out.print()
        for column, value in zip(columns, row, strict=True):
            if value:
                out.print(Text.assemble((f"{column:<{width}}  ", "bold"), value), soft_wrap=True)


def counted(count: int, plural: str) -> str:
    """'1 entity' or '2 entities'."""
    singular = re.sub(r"ies$", "y", plural) if plural.endswith("ies") else plural.removesuffix("s")
    return f"{count} {singular if count == 1 else plural}"


def title_and_text(title: str, text: str) -> tuple[str, str]:
    """Both on one line each, for people. A text that begins with its title, as one without a title does, is the title
    alone."""
    title, text = (show(" ".join(one.split())) for one in (title, text))
    return (text, "") if text.startswith(title.removesuffix("…")) else (title, text)


def _cell(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return show(", ".join(map(str, value)))
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else show(str(value))


def print_error(code: str, message: str, hint: str = "", *, as_json: bool) -> None:
    """Write an error to stderr, in one line or as JSON."""
    if as_json:
        error = {"error": code, "message": as_typed(message)} | ({"hint": as_typed(hint)} if hint else {})
        sys.stderr.write(escape_in_json(json.dumps(error, ensure_ascii=False)) + "\n")
    else:
        print_text(f"memory-mcp: {message} {hint}".rstrip(), err=True)


@contextmanager
def end_at_closed_pipe() -> Iterator[None]:
    """End with status 0, without a message, when the reader of stdout, such as `head`, has all that it wants, and with
    status 1 and one sentence when stdout cannot be written, such as to a full disk.

    Typer and Rich catch the first error and exit with status 1 instead: then it is the context of their SystemExit."""
    try:
        yield
        sys.stdout.flush()
    except OSError as exc:
        _end_without_output(exc)
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):
            _end_without_output(ending.__context__)
        try:
            sys.stdout.flush()
        except OSError as exc:
            _end_without_output(exc)
        raise


def _end_without_output(exc: OSError) -> NoReturn:
    """Python flushes stdout once more when it ends: what is left goes nowhere. Raises another error than of stdout."""
    is_closed = isinstance(exc, BrokenPipeError)
    if not is_closed and (exc.filename or exc.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)):
        raise exc
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]  # None: ValueError
    if not is_closed:
        sys.stderr.write(f"memory-mcp: The output cannot be written ({exc.strerror}).\n")
    sys.exit(0 if is_closed else 1)
