"""memory-mcp portal open."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from memory_mcp.cli.common import AsJson, DataDir, print_json
from memory_mcp.engine import archive
from memory_mcp.errors import Invalid, NotFound

cli = typer.Typer(help="Portals in files.", no_args_is_help=True)


@cli.callback()
def root() -> None: ...


@cli.command("open")
def open_file(
    file: Annotated[Path, typer.Argument(help="A file made by portal_export with the format db.", metavar="FILE")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Check a portal's file and show the tables it holds. Nothing is changed.

    With --data-dir, a file that is not found as it is given is looked for in that folder's exports/ too.
    """
    if data_dir is not None and not file.exists() and (data_dir / "exports" / file).is_file():
        file = data_dir / "exports" / file
    if not file.is_file():
        raise NotFound(f"{file}: there is no such file.")
    try:
        said = archive.manifest(file)
    except archive.Damaged as exc:
        raise Invalid(f"{file}: {exc}") from exc
    if as_json:
        print_json({"file": file, "tables": said["tables"], "metadata": said["metadata"]})
        return
    table = Table(box=None)
    table.add_column("table")
    table.add_column("rows", justify="right")
    for name, rows in said["tables"].items():
        table.add_row(name, str(rows))
    portal, made, server = (
        said["metadata"].get(f"mcp.{name}", "unknown") for name in ("portal.id", "created_at", "server.name")
    )
    typer.echo(f"{portal}, made {made} by {server}; the file is whole.")
    Console().print(table)
