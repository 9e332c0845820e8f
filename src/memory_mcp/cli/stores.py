"""memory-mcp stores add|list|remove."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from memory_mcp.cli.common import AsJson, DataDir, opened_app, print_json
from memory_mcp.families.stores.model import Store

cli = typer.Typer(help="Folders of markdown files that agents work in.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="What agents call it.", metavar="NAME")]


@cli.command()
def add(
    name: Name,
    path: Annotated[Path, typer.Argument(help="A folder that is there, such as an Obsidian vault.", metavar="PATH")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Register a folder as a store. Nothing in it is changed."""
    with opened_app(data_dir) as (app, caller):
        store = app.stores.register(caller, name, path.expanduser())
    _tell(store, f"{name} is registered: {store.folder}", as_json=as_json)


@cli.command("list")
def list_stores(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show every store and where it lies."""
    with opened_app(data_dir) as (app, caller):
        stores = [_shown(store) for store in app.stores.all(caller)]
    if as_json:
        print_json({"stores": stores})
    elif not stores:
        typer.echo("There are no stores yet. `memory-mcp stores add NAME PATH` registers a folder.")
    else:
        table = Table(box=None)
        for column in stores[0]:
            table.add_column(column, overflow="fold")
        for store in stores:
            table.add_row(*store.values())
        Console().print(table)


@cli.command()
def remove(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Unregister a store. Its files stay where they are."""
    with opened_app(data_dir) as (app, caller):
        store = app.stores.unregister(caller, name)
    _tell(store, f"{name} is not registered any more. Its files stay in {store.folder}", as_json=as_json)


def _tell(store: Store, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_shown(store))
    else:
        typer.echo(message)


def _shown(store: Store) -> dict[str, Any]:
    return {"name": store.name, "path": str(store.folder)}
