"""memory-mcp stores add|list|remove."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memory_mcp.cli.common import AsJson, DataDir, parse_path, use_app
from memory_mcp.cli.output import print_json, print_table, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.families.stores.model import Store
from memory_mcp.system.paths import expand_home

cli = Verbs(help="Folders of markdown files that agents work in.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The store's name for agents.", metavar="NAME")]


@cli.command()
def add(
    name: Name,
    path: Annotated[
        Path, typer.Argument(parser=parse_path, help="An existing folder, such as an Obsidian vault.", metavar="PATH")
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Register a folder as a store. Nothing in it is changed."""
    with use_app(data_dir, creates=True) as (app, caller):
        store = app.stores.register(caller, name, expand_home(path))
    _report(store, f"{name} is registered: {store.folder}", as_json=as_json)


@cli.command("list")
def list_stores(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show every store and its folder."""
    with use_app(data_dir) as (app, caller):
        stores = [_shown(store) for store in app.stores.all(caller)]
    if as_json:
        print_json({"stores": stores})
    elif not stores:
        print_text("There are no stores yet. `memory-mcp stores add NAME PATH` registers a folder.")
    else:
        print_table(tuple(stores[0]), [list(store.values()) for store in stores])


@cli.command()
def remove(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Unregister a store. Its files stay where they are."""
    with use_app(data_dir) as (app, caller):
        store = app.stores.unregister(caller, name)
    _report(store, f"{name} is no longer registered. Its files stay in {store.folder}", as_json=as_json)


def _report(store: Store, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_shown(store))
    else:
        print_text(message)


def _shown(store: Store) -> dict[str, Any]:
    return {"name": store.name, "path": str(store.folder)}
