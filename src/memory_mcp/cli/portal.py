"""The commands memory-mcp portal open, list, delete, servers and claim."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from memory_mcp.app import claim_portals, open_access, open_portal_servers
from memory_mcp.cli.common import AsJson, DatabaseUrl, DataDir, chosen_settings, new_session, use_app
from memory_mcp.cli.output import confirm, print_json, print_table, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.engines.chdb import archive
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import Call
from memory_mcp.families.portals import address as addresses
from memory_mcp.families.portals.model import PortalSummary
from memory_mcp.text.nearness import not_found

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
        found = app.portal_summaries(caller)
    if as_json:
        print_json({"portals": [asdict(one) for one in found]})
        return
    if not found:
        print_text("There is no portal yet.")
        return
    rows = [[one.uri, one.name, one.tables, f"{one.rows:,}", f"{one.bytes:,}"] for one in found]
    print_table(("portal", "name", "tables", "rows", "bytes"), rows, numbers=["rows", "bytes"])


@cli.command("delete")
def delete_portal(
    uri: Annotated[str, typer.Argument(help="The portal, as mem://namespace/portal.", metavar="URI")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Delete a portal with all its tables, for good."""
    wanted = addresses.portal(uri, field="URI").portal_uri
    with use_app(data_dir) as (app, caller):
        known = {portal.uri: portal for portal in app.portal_summaries(caller)}
        if wanted not in known:
            raise not_found(f"There is no portal {wanted}.", wanted, known)
        if not yes:
            _confirm(known[wanted])
        delete = app.opened["portals"].family.tools["portal_delete"]
        call = Call(app.portals, caller, new_session(caller))
        deleted = delete.run(call, delete.arguments.model_validate({"portalUri": wanted, "confirm": True}))
    if as_json:
        print_json({"portalUri": deleted.portalUri, "deleted": deleted.deleted, "portal": True})
    else:
        print_text(f"Deleted {deleted.portalUri} with {deleted.deleted} rows.")


@cli.command("servers")
def list_servers(data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show the servers on one PostgreSQL that have portals, and of how many users (docs/postgres.md)."""
    chosen = chosen_settings(data_dir, database_url=database_url, creates=database_url is not None)
    with open_portal_servers(chosen) as directory:
        found = directory.servers()
    if as_json:
        print_json({"servers": [asdict(one) for one in found]})
    else:
        print_table(("address", "id", "users"), [(one.url, one.id, one.users) for one in found], numbers={"users"})


@cli.command("claim")
def claim(
    user: Annotated[str, typer.Argument(metavar="USER")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Let a user's portals be those in this data directory, after their folder was copied here from another server:
    the servers on the same PostgreSQL forward calls to this one from now on."""
    chosen = chosen_settings(data_dir, database_url=database_url)
    with open_access(chosen) as access:
        user_id = access.users.get(user).id
    with open_portal_servers(chosen) as directory:
        server = claim_portals(chosen, directory, user_id)
    if as_json:
        print_json({"user": user, "server": server.url})
    else:
        print_text(f"The portals of {user} are at {server.url} now.")


def _confirm(portal: PortalSummary) -> None:
    """Raises Invalid without a terminal, and if the answer is no."""
    if not sys.stdin.isatty():
        raise Invalid("Deleting a portal asks for confirmation. Give --yes to skip that.")
    tables = ", ".join(portal.tables) or "none"
    if not confirm(f"Delete {portal.uri} for good? Tables: {tables}; rows: {portal.rows:,}."):
        raise Invalid("Nothing was deleted.")
