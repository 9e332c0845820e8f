"""memory-mcp keys create|list|revoke."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from memory_mcp.caller import LOCAL_USER, parse_scopes
from memory_mcp.cli.common import AsJson, DataDir, report_as_usage_error, split_names, use_access
from memory_mcp.cli.output import print_json, print_table, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.errors import Invalid
from memory_mcp.families.registry import FAMILIES, confinable
from memory_mcp.services.access import Key
from memory_mcp.services.access.keys import lifetime

cli = Verbs(help="Keys for clients that connect over HTTP.", no_args_is_help=True)


@cli.command()
def create(
    name: Annotated[str, typer.Option(help="What the key is for, such as the client's name.")],
    user: Annotated[str, typer.Option(help="The user whose memory it gives access to.")] = LOCAL_USER,
    namespace: Annotated[str, typer.Option(help="For notes that name no namespace.")] = "default",
    confined: Annotated[bool, typer.Option("--confined", help="Hide everything outside its namespace.")] = False,
    scopes: Annotated[str, typer.Option(help="Comma-separated scopes, or read-only.")] = "read-write",
    families: Annotated[str, typer.Option(help="Comma-separated families.", show_default="all")] = "",
    expires: Annotated[str, typer.Option(help="How long it works: 30m, 12h, 90d, 4w.", show_default="no end")] = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. It is shown once and stored nowhere."""
    with report_as_usage_error():
        granted = parse_scopes(split_names(scopes))
        chosen = _known_families(split_names(families))
        chosen = confinable(chosen) if confined else chosen
        until = lifetime(expires)
    with use_access(data_dir, creates=True) as access:
        issued = access.keys.create(
            name=name,
            user=access.users.get(user).id,
            scopes=granted,
            families=chosen,
            namespace=namespace,
            is_confined=confined,
            expires_at=until,
        )
    if as_json:
        print_json({**_shown(issued.key, user), "key": issued.raw})
    else:
        print_text(issued.raw)
        if confined:
            print_text(
                f"It is confined to the namespace {issued.key.namespace!r} in {', '.join(chosen)}: it sees nothing "
                "outside that namespace.",
                err=True,
            )


@cli.command("list")
def list_keys(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show every key, without its secret."""
    with use_access(data_dir) as access:
        names = {user.id: user.name for user in access.users.all()}
        keys = [_shown(key, names[key.user]) for key in access.keys.all()]
    if as_json:
        print_json({"keys": keys})
        return
    if not keys:
        print_text("There are no keys yet. A client over HTTP needs one: `memory-mcp keys create --name CLIENT`")
        return
    columns = (
        *("id", "name", "user", "namespace", "confined", "scopes", "families"),
        *("created_at", "expires_at", "revoked_at", "last_used_at"),
    )
    print_table(columns, [[key[column] for column in columns] for key in keys])


@cli.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID")], data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Revoke a key for good, in every running server within a second."""
    with use_access(data_dir) as access:
        access.keys.revoke(key_id)
    if as_json:
        print_json({"id": key_id, "revoked": True})
    else:
        print_text(f"Key {key_id} is revoked.")


def _shown(key: Key, user: str) -> dict[str, Any]:
    hidden = ("secret_hash", "made_by", "plan", "is_confined")
    shown = {name: value for name, value in vars(key).items() if name not in hidden}
    own = {"user": user, "scopes": sorted(key.scopes), "families": sorted(key.families), "confined": key.is_confined}
    return shown | own


def _known_families(names: Sequence[str]) -> Sequence[str]:
    if unknown := [name for name in names if name not in FAMILIES]:
        raise Invalid(f"No family is called {unknown[0]!r}. Use any of: {', '.join(FAMILIES)}.")
    return names
