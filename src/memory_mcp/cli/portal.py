"""The commands memory-mcp portal open, list and delete."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_mcp.cli.common import AsJson, DataDir, use_app
from memory_mcp.cli.output import confirm, print_json, print_table, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.engines.chdb import archive
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals.folders import PortalFolder

cli = Verbs(help="Portals and their exported files.", no_args_is_help=True)


@cli.callback()
def root() -> None: ...


@cli.command("open")
def open_file(
    file: Annotated[Path, typer.Argument(help="A file made by portal_export with the format db.", metavar="FILE")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Check a portal's file and show the tables it holds. Nothing is changed.

    With --data-dir, a file that is not found is also searched in that folder's exports/.
    """
    if data_dir is not None and not file.exists() and (data_dir / "exports" / file).is_file():
        file = data_dir / "exports" / file
    if not file.is_file():
        raise NotFound(f"{file}: there is no such file.")
    try:
        manifest = archive.manifest(file)
    except archive.DamagedArchive as exc:
        raise Invalid(f"{file}: {exc}") from exc
    if as_json:
        print_json({"file": file, "tables": manifest["tables"], "metadata": manifest["metadata"]})
        return
    portal, made, server = (
        manifest["metadata"].get(f"mcp.{name}", "unknown") for name in ("portal.id", "created_at", "server.name")
    )
    print_text(f"{portal}, made {made} by {server}; the file is complete.")
    print_table(("table", "rows"), list(manifest["tables"].items()), numbers=["rows"])


@cli.command("list")
def list_portals(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the portals of a data directory with their tables and sizes."""
    with use_app(data_dir) as (app, caller):
        found = [_summary(folder) for folder in app.portals.all(caller)]
    if as_json:
        print_json({"portals": found})
        return
    if not found:
        print_text("There is no portal yet.")
        return
    rows = [[one["uri"], one["name"], one["tables"], f"{one['rows']:,}", f"{one['bytes']:,}"] for one in found]
    print_table(("portal", "name", "tables", "rows", "bytes"), rows, numbers=["rows", "bytes"])


def _summary(folder: PortalFolder) -> dict[str, Any]:
    described = folder.described()
    tables = described.tables if described else []
    rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
    return {
        "uri": folder.address.portal_uri,
        **asdict(folder.labels()),
        "tables": [table.name for table in tables],
        "rows": rows,
        "bytes": size,
    }


@cli.command("delete")
def delete_portal(
    uri: Annotated[str, typer.Argument(help="The portal, as mem://namespace/portal.", metavar="URI")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Delete a portal with all its tables, for good."""
    with use_app(data_dir) as (app, caller):
        folder, _ = app.portals.described(caller, addresses.portal(uri, field="URI"))
        if not yes:
            _confirm(_summary(folder))
        deleted = app.portals.delete(caller, uri, None, None, confirm=True)
    if as_json:
        print_json({"portalUri": deleted.portalUri, "deleted": deleted.deleted, "portal": True})
    else:
        print_text(f"Deleted {deleted.portalUri} with {deleted.deleted} rows.")


def _confirm(portal: dict[str, Any]) -> None:
    """Raises Invalid without a terminal, and if the answer is no."""
    if not sys.stdin.isatty():
        raise Invalid("Deleting a portal asks for confirmation. Give --yes to skip that.")
    tables = ", ".join(portal["tables"]) or "none"
    if not confirm(f"Delete {portal['uri']} for good? Tables: {tables}; rows: {portal['rows']:,}."):
        raise Invalid("Nothing was deleted.")
