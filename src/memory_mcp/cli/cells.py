"""memory-mcp cells add|list|move: the databases with users' rows."""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import typer

from memory_mcp.app import HOME_NAME, open_access, open_cells
from memory_mcp.cli.common import AsJson, DatabaseUrl, DataDir, chosen_settings
from memory_mcp.cli.output import counted, print_json, print_table, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.cli.verbs import Verbs
from memory_mcp.settings import Settings

NAME = re.compile(r"[\w-]{1,64}")
SCHEMES = ("postgresql", "postgres")
MOVE_STOPPED = "The user's calls are refused until the same command has finished."

cli = Verbs(help="The PostgreSQL databases with users' rows (docs/postgres.md).", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@cli.command()
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Such as postgresql://user@host/database.")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Add a database to which users can be moved, and create its tables. Its URL is stored as it is, so leave out the
    password: every server finds it in ~/.pgpass."""
    chosen = _settings(data_dir, database_url)
    if name == HOME_NAME or not NAME.fullmatch(name):
        raise typer.BadParameter(f"The name of a cell has letters, digits, - and _, and is not {HOME_NAME!r}.")
    if urlsplit(url).scheme not in SCHEMES:
        raise typer.BadParameter("A cell has a URL such as postgresql://user@host/database.")
    with open_cells(chosen.model_copy(update={"database_url": url})) as there, open_cells(chosen) as moves:
        moves.add(name, url, there.cells.home)
    if as_json:
        print_json({"name": name})
    else:
        print_text(f"The cell {name} is added. Move a user there: `memory-mcp cells move USER {name}`")


@cli.command("list")
def list_cells(data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show the databases and how many users are in each."""
    chosen = _settings(data_dir, database_url)
    with open_access(chosen) as access:
        users = len(access.users.all())
    with open_cells(chosen) as moves:
        cells = moves.cells.directory.cells()
    rows = [(HOME_NAME, str(chosen.database_url), users - sum(cell.users for cell in cells))]
    rows += [(cell.name, cell.url, cell.users) for cell in cells]
    shown = [(name, _without_password(url), count) for name, url, count in rows]
    if as_json:
        print_json({"cells": [{"name": name, "url": url, "users": count} for name, url, count in shown]})
    else:
        print_table(("name", "url", "users"), shown, numbers={"users"})


@cli.command()
def move(
    user: Annotated[str, typer.Argument(metavar="USER")],
    cell: Annotated[str, typer.Argument(metavar="CELL", help=f"{HOME_NAME} is the database of --database-url.")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Move a user's vault, notes and projects to another database, while servers run. The user's calls are refused
    meanwhile. Each row is compared after it was written; after an interruption, run the same command again."""
    chosen = _settings(data_dir, database_url)
    with open_access(chosen) as access:
        user_id = access.users.get(user).id
    with (
        open_cells(chosen) as moves,
        show_progress(as_json, if_interrupted=MOVE_STOPPED) as report_progress,
    ):
        moved = list(moves.run(user_id, "" if cell == HOME_NAME else cell, report_progress))
    rows = sum(one.rows for one in moved)
    if as_json:
        print_json({"user": user, "cell": cell, "rows": rows})
    else:
        print_text(f"{user} is in {cell}: {counted(rows, 'rows')}, each compared after it was written.")


def _settings(data_dir: Path | None, database_url: str | None) -> Settings:
    chosen = chosen_settings(data_dir, database_url=database_url, creates=database_url is not None)
    if not chosen.database_url:
        raise typer.BadParameter("Cells are PostgreSQL databases. Say with --database-url which one has the users.")
    return chosen


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:…@{host}"))
