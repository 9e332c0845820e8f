"""Shared by all verbs: options, opening the data directory, and errors."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import typer

from memory_mcp import settings
from memory_mcp.app import Access, App, Maintenance, open_access, open_app, open_maintenance
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.cli.interrupts import EXIT_CODE, Interrupted
from memory_mcp.cli.output import print_error
from memory_mcp.clock import new_id
from memory_mcp.engines.files import data_directory
from memory_mcp.errors import AppError, Invalid, NotFound
from memory_mcp.services.sessions import Connection, Session


def parse_path(text: str) -> Path:
    """For options and arguments. Raises BadParameter for an empty text, which is an unset variable in a script: Path
    would make it the current folder."""
    if not str(text).strip():
        raise typer.BadParameter("The path is empty. Give one, or leave the option out.")
    return Path(text)


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        parser=parse_path,
        metavar="<path>",
        help="Folder that holds everything.",
        show_default="the user data folder",
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="<url>",
        help="PostgreSQL instead of files: postgresql://user@host/database.",
        show_default=False,
    ),
]
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # Typer exports no name for it
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def report_errors(*, as_json: bool) -> Iterator[None]:
    """Write an error to stderr, in one line or as JSON, and exit with status 1, or 130 if it was interrupted."""
    try:
        yield
    except AppError as exc:
        print_error(exc.code, exc.message, exc.people_hint, as_json=as_json)
        sys.exit(1)
    except Interrupted as exc:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the cursor is after a question, or after ^C
        print_error(exc.code, exc.message, as_json=as_json)
        sys.exit(EXIT_CODE)


@contextmanager
def report_bad_usage() -> Iterator[None]:
    """For `--json`: write errors in the command line itself as JSON."""
    try:
        yield
    except UsageError as exc:
        print_error(Invalid.code, cast(typer.BadParameter, exc).format_message(), as_json=True)
        sys.exit(2)
    except typer.Abort:
        print_error(Invalid.code, "Nothing was done.", as_json=True)
        sys.exit(1)


@contextmanager
def report_as_usage_error() -> Iterator[None]:
    """Report an AppError as bad usage, with exit status 2. For reading options."""
    try:
        yield
    except AppError as exc:
        raise typer.BadParameter(exc.text_for_owner) from exc


def chosen_settings(
    data_dir: Path | None, *, database_url: str | None = None, creates: bool = False
) -> settings.Settings:
    """The settings of a data directory. Raises NotFound if one is given, by --data-dir or its variable, that is
    missing, unless the verb creates it: a misspelt path must not become a new folder. Raises Invalid for a folder of
    other files."""
    with report_as_usage_error():
        loaded = settings.load({"data_dir": data_dir, "database_url": database_url})
    chosen = loaded.settings
    if creates:
        data_directory.require_no_other_files(chosen.data_dir)
    elif loaded.is_given("data_dir"):
        require_data_dir(chosen.data_dir)
    return chosen


def require_data_dir(folder: Path) -> None:
    if data_directory.is_usable(folder):
        return
    what = f"{folder} is not a data directory" if folder.exists() else f"There is no data directory {folder}"
    raise NotFound(
        f"{what}, and this command creates none.",
        people_hint="Check --data-dir or MEMORY_MCP_DATA_DIR. `memory-mcp add` or `memory-mcp open` creates a new one.",
    )


@contextmanager
def use_access(data_dir: Path | None, *, creates: bool = False) -> Iterator[Access]:
    with open_access(chosen_settings(data_dir, creates=creates)) as access:
        yield access


@contextmanager
def use_app(
    data_dir: Path | None, new_files_dir: Path | None = None, *, creates: bool = False
) -> Iterator[tuple[App, Caller]]:
    """Open the app, with the local user as a caller of all scopes. Missing databases are created in `new_files_dir` if
    it is given, and in the data directory otherwise."""
    chosen = chosen_settings(data_dir, creates=creates)
    with open_app(chosen, serving=False, new_files_dir=new_files_dir) as app:
        yield app, Caller(LOCAL_USER, ALL_SCOPES, frozenset(app.families), source="cli")


@contextmanager
def use_maintenance(data_dir: Path | None, database_url: str | None = None) -> Iterator[Maintenance]:
    """Open the parts that back up, restore, check and migrate the data."""
    chosen = chosen_settings(data_dir, database_url=database_url, creates=database_url is not None)
    with open_maintenance(chosen) as maintenance:
        yield maintenance


def caller_for(app: App, local: Caller, user: str) -> Caller:
    """A user by name, as a caller with all scopes. Raises NotFound."""
    return Caller(app.access.users.get(user).id, ALL_SCOPES, local.families, source="cli")


def new_session(caller: Caller) -> Session:
    return Session(new_id(), Connection(caller.user, new_id()))


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line has this option or argument."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"  # Typer exports no name for its type


def split_names(text: str) -> list[str]:
    """'a, b' as flags write a list."""
    return [name.strip() for name in text.split(",") if name.strip()]
