"""memory-mcp users add|list|remove|plan|link|password."""

import sys
from typing import Annotated

import typer

from memory_mcp.app import open_access
from memory_mcp.caller import LOCAL_USER
from memory_mcp.cli.common import AsJson, DataDir, chosen_settings, use_access
from memory_mcp.cli.output import print_json, print_table, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.services.access import REQUESTS_PER_MINUTE, Plan
from memory_mcp.services.access.sign_ins import sign_in_url

cli = Verbs(help="The users of this server. Each has separate data.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@cli.command()
def add(
    name: Name,
    plan: Annotated[Plan, typer.Option(help="Sets the requests a minute, where --rate-limits is on.")] = "community",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add a user. `memory-mcp keys create --user NAME` creates a key for their clients."""
    with use_access(data_dir, creates=True) as access:
        user = access.users.add(name, plan)
    if as_json:
        print_json(vars(user))
    else:
        print_text(f"{name} is added. Create a key: `memory-mcp keys create --user {name} --name CLIENT`")


@cli.command("list")
def list_users(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show every user."""
    with use_access(data_dir) as access:
        users = [vars(user) for user in access.users.all()]
    if as_json:
        print_json({"users": users})
        return
    columns = ("name", "id", "plan", "created_at")
    print_table(columns, [[user[column] for column in columns] for user in users])


@cli.command()
def remove(
    name: Name,
    delete_data: Annotated[bool, typer.Option("--delete-data", help="Delete all their data, for good.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove a user and their keys. Their data stays, unless --delete-data is given."""
    with use_access(data_dir) as access:
        user = access.users.remove(name)
        folder = access.folder_of(user.id)
        if delete_data:
            access.delete_data(user.id)
    kept = folder.exists()
    if as_json:
        print_json({**vars(user), "removed": True, "data": str(folder) if kept else None})
    else:
        print_text(f"{name} is removed, with all keys." + (f" Their data is still in {folder}." if kept else ""))


@cli.command()
def plan(
    name: Name, plan: Annotated[Plan, typer.Argument(metavar="PLAN")], data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Change how many requests a minute a user's keys may make, where --rate-limits is on."""
    with use_access(data_dir) as access:
        user = access.users.set_plan(name, plan)
    allowed = REQUESTS_PER_MINUTE[user.plan]
    if as_json:
        print_json({**vars(user), "requests_a_minute": allowed})
    else:
        print_text(f"{user.name} may make {allowed or 'any number of'} requests a minute.")


@cli.command()
def link(name: Name = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Print a link that signs a user in to the web app of the running server, once, within a day."""
    chosen = chosen_settings(data_dir)
    with open_access(chosen) as access:
        user = access.users.get(name)
        running = next((one.url for one in access.addresses()), None)
        base = running or chosen.public_url or f"http://{chosen.url_host}:{chosen.port}"
        url = sign_in_url(base, access.sign_ins.create_link_token(user.id))
    if as_json:
        print_json({"user": user.name, "link": url})
        return
    print_text(url)
    if running is None:
        print_text(
            "No server runs over HTTP now; the link works once one does. `memory-mcp open` starts one.", err=True
        )


@cli.command()
def password(
    name: Name = LOCAL_USER,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read it from the first line of stdin.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Set a user's password for the web app. Ends all their sign-ins."""
    with use_access(data_dir) as access:
        user = access.users.get(name)
        chosen = (
            sys.stdin.readline().rstrip("\n")
            if stdin
            else typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        )
        access.sign_ins.set_password(user.id, chosen)
    if as_json:
        print_json({"user": user.name, "password_set": True})
    else:
        print_text(f"{user.name} can now sign in with this password.")
