"""Shared by all verbs: options, opening the data directory, output and errors."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from memory_mcp import settings
from memory_mcp.app import Access, App, Maintenance, open_access, open_app, open_maintenance
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import AppError, Invalid
from memory_mcp.progress import ReportProgress, report_nothing

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder that holds everything.", show_default="the user data folder"),
]
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # Typer exports no name for it
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def report_errors(*, as_json: bool) -> Iterator[None]:
    """Write an error to stderr, in one line or as JSON, and exit with status 1."""
    try:
        yield
    except AppError as exc:
        if as_json:
            _write_json_error(exc.code, exc.message, exc.people_hint)
        else:
            sys.stderr.write(f"memory-mcp: {exc.text_for_owner}\n")
        sys.exit(1)


@contextmanager
def report_bad_usage() -> Iterator[None]:
    """For `--json`: write errors in the command line itself as JSON."""
    try:
        yield
    except UsageError as exc:
        _write_json_error(Invalid.code, cast(typer.BadParameter, exc).format_message())
        sys.exit(2)
    except typer.Abort:
        _write_json_error(Invalid.code, "Nothing was done.")
        sys.exit(1)


def _write_json_error(code: str, message: str, hint: str = "") -> None:
    error = {"error": code, "message": message} | ({"hint": hint} if hint else {})
    sys.stderr.write(json.dumps(error, ensure_ascii=False) + "\n")


@contextmanager
def report_as_usage_error() -> Iterator[None]:
    """Report an AppError as bad usage, with exit status 2. For reading options."""
    try:
        yield
    except AppError as exc:
        raise typer.BadParameter(exc.text_for_owner) from exc


@contextmanager
def use_access(data_dir: Path | None) -> Iterator[Access]:
    with report_as_usage_error():
        loaded = settings.load({"data_dir": data_dir})
    with open_access(loaded.settings) as access:
        yield access


@contextmanager
def use_app(data_dir: Path | None, new_files_dir: Path | None = None) -> Iterator[tuple[App, Caller]]:
    """Open the app, with the local user as a caller of all scopes. Missing databases are created in `new_files_dir` if
    it is given, and in the data directory otherwise."""
    with report_as_usage_error():
        chosen = settings.load({"data_dir": data_dir}).settings
    with open_app(chosen, serving=False, new_files_dir=new_files_dir) as app:
        yield app, Caller(LOCAL_USER, ALL_SCOPES, frozenset(app.families))


@contextmanager
def use_maintenance(data_dir: Path | None) -> Iterator[Maintenance]:
    """Open what backs up, restores, checks and migrates the files."""
    with report_as_usage_error():
        chosen = settings.load({"data_dir": data_dir}).settings
    with open_maintenance(chosen) as maintenance:
        yield maintenance


def caller_for(app: App, local: Caller, user: str) -> Caller:
    """A user by name, as a caller with all scopes. Raises NotFound."""
    return Caller(app.access.users.get(user).id, ALL_SCOPES, local.families)


@contextmanager
def show_progress(as_json: bool) -> Iterator[ReportProgress]:
    """Show a bar for each kind of work, on a terminal."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield report_nothing
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report_progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield report_progress


def split_names(text: str) -> list[str]:
    """'a, b' as flags write a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))
