"""memory-mcp users add|list|remove."""

import shutil
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from memory_mcp.cli.common import AsJson, DataDir, opened_access, print_json

cli = typer.Typer(help="People with a memory of their own on this server.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@cli.command()
def add(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Add a user. `memory-mcp keys create --user NAME` then lets their clients in."""
    with opened_access(data_dir) as access:
        user = access.users.add(name)
    if as_json:
        print_json(vars(user))
    else:
        typer.echo(f"{name} is added. Make a key: memory-mcp keys create --user {name} --name CLIENT")


@cli.command("list")
def list_users(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show every user."""
    with opened_access(data_dir) as access:
        users = [vars(user) for user in access.users.all()]
    if as_json:
        print_json({"users": users})
        return
    table = Table(box=None)
    for column in ("name", "id", "created_at"):
        table.add_column(column, no_wrap=True)
    for user in users:
        table.add_row(user["name"], user["id"], user["created_at"])
    Console().print(table)


@cli.command()
def remove(
    name: Name,
    delete_data: Annotated[bool, typer.Option("--delete-data", help="Delete all they kept, for good.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove a user and their keys. What they kept stays, unless --delete-data says otherwise."""
    with opened_access(data_dir) as access:
        user = access.users.remove(name)
        folder = access.folder_of(user.id)
    if delete_data:
        shutil.rmtree(folder, ignore_errors=True)
    kept = folder.exists()
    if as_json:
        print_json({**vars(user), "removed": True, "data": str(folder) if kept else None})
    else:
        typer.echo(f"{name} is removed, with all keys." + (f" What they kept is still in {folder}." if kept else ""))
