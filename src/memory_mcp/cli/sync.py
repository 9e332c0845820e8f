"""memory-mcp sync link|unlink|enable|disable|resync|clear-state|status|now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from memory_mcp.caller import LOCAL_USER
from memory_mcp.cli.common import AsJson, DataDir, caller_for, use_app
from memory_mcp.cli.output import print_json, print_table, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.cli.verbs import Verbs
from memory_mcp.services.sync import Sync, SyncState
from memory_mcp.services.sync.hub_client import is_plain_http

cli = Verbs(help="Keep the notes of a namespace the same on several computers.", no_args_is_help=True)

STOPPED = "All that was sent and received is stored. Run the same command again to continue."

Namespace = Annotated[str, typer.Argument(help="A namespace of notes, such as default.", metavar="NAMESPACE")]
User = Annotated[str, typer.Option(help="The user whose notes are synced.")]


@cli.command()
def link(
    url: Annotated[str, typer.Argument(help="The URL of `memory-mcp hub`.", metavar="URL")],
    key: Annotated[
        str, typer.Option(help="A key created on the hub with `keys create`.", envvar="MEMORY_MCP_HUB_KEY", prompt=True)
    ],
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt notes before sending, with a new secret that is printed once.")
    ] = False,
    secret: Annotated[
        str,
        typer.Option(
            help="The secret that --encrypt printed on the first node.",
            envvar="MEMORY_MCP_SYNC_SECRET",
            show_default="none: the hub can read notes",
        ),
    ] = "",
    user: User = LOCAL_USER,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Set the hub through which this node syncs notes. Nothing is sent until a namespace is enabled."""
    with _use_sync(data_dir, user, creates=True) as (sync, who):
        made = sync.link(who, url, key, secret=secret or None, encrypt=encrypt)
    if as_json:
        print_json({"url": made.url, "encrypted": bool(made.secret), "secret": made.secret if encrypt else None})
        return
    print_text(f"Linked to {made.url}. Now choose what to sync: `memory-mcp sync enable NAMESPACE`")
    if encrypt:
        print_text(
            "\nThe secret, for --secret on your other nodes. Without it the notes on the hub cannot be read:"
            f"\n\n  {made.secret}"
        )
    if is_plain_http(made.url):
        what = "the key" if made.secret else "the key and the notes"
        print_text(
            f"Anyone on the network can read {what}: http without TLS. Put a proxy with TLS in front of the hub.",
            err=True,
        )


@cli.command()
def unlink(user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Stop syncing and forget the hub. Notes stay, on this node and on the hub."""
    with _use_sync(data_dir, user) as (sync, who):
        sync.unlink(who)
    _report("The hub is unlinked.", {"linked": False}, as_json=as_json)


@cli.command()
def enable(namespace: Namespace, user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Sync a namespace from now on: its notes, and those that other nodes have in it."""
    _run(Sync.enable, namespace, user, data_dir, f"{namespace} is synced by any running server.", as_json=as_json)


@cli.command()
def disable(namespace: Namespace, user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Stop syncing a namespace. Changes wait until it is enabled again."""
    _run(Sync.disable, namespace, user, data_dir, f"{namespace} is not synced for now.", as_json=as_json)


@cli.command()
def resync(namespace: Namespace, user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Send and receive all notes again, for when two nodes seem to differ. Nothing is lost."""
    _run(
        Sync.resync,
        namespace,
        user,
        data_dir,
        f"All notes of {namespace} are sent and received next time.",
        as_json=as_json,
    )


@cli.command("clear-state")
def clear_state(
    namespace: Namespace, user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Stop syncing a namespace, and delete its sync state. Its notes stay, on this node and on the hub."""
    message = f"The sync state of {namespace} is deleted. Its notes stay."
    _run(Sync.clear_state, namespace, user, data_dir, message, as_json=as_json)


@cli.command()
def status(user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the hub, and how much each namespace has to send and receive."""
    with _use_sync(data_dir, user) as (sync, who):
        found = sync.status(who)
    print_json(asdict(found)) if as_json else _show(found)


@cli.command()
def now(user: User = LOCAL_USER, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Push and pull once. Exits with 1 if anything is left."""
    with _use_sync(data_dir, user) as (sync, who), show_progress(as_json, if_interrupted=STOPPED) as report_progress:
        done = sync.run(who, report_progress)
        found = sync.status(who)
    if as_json:
        print_json({**asdict(done), "left": found.left, "status": asdict(found)})
    else:
        print_text(f"{done.pushed} sent, {done.pulled} received, {done.refused} refused, {found.left} left.")
        for reason in {reason for one in found.namespaces for reason in one.refused}:
            print_text(f"Refused: {reason}", err=True)
        _show_skipped(found, err=True)
    if found.left:
        raise typer.Exit(1)


@contextmanager
def _use_sync(data_dir: Path | None, user: str, *, creates: bool = False) -> Iterator[tuple[Sync, str]]:
    with use_app(data_dir, creates=creates) as (app, local):
        yield app.sync, caller_for(app, local, user).user


def _run(
    verb: Callable[[Sync, str, str], None],
    namespace: str,
    user: str,
    data_dir: Path | None,
    message: str,
    *,
    as_json: bool,
) -> None:
    with _use_sync(data_dir, user) as (sync, who):
        verb(sync, who, namespace)
        found = sync.status(who)
    _report(message, asdict(found), as_json=as_json)


def _report(message: str, data: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        print_text(message)


def _show(found: SyncState) -> None:
    if not found.linked:
        print_text("No hub is linked. Link one, with a key created on it: `memory-mcp sync link URL --key KEY`")
        return
    print_text(f"Hub      {found.url}{' (encrypted)' if found.encrypted else ''}")
    print_text(f"Node     {found.node}")
    print_text(f"Synced   {found.synced_at or 'not yet'}")
    if found.error:
        print_text(f"Problem  {found.error}")
    if not found.namespaces:
        print_text("\nNo namespace is synced yet. Choose one: `memory-mcp sync enable NAMESPACE`")
        return
    rows = [
        (one.namespace, "yes" if one.enabled else "no", one.notes, one.outbox, one.to_pull, "; ".join(one.refused))
        for one in found.namespaces
    ]
    print_table(("namespace", "enabled", "notes", "to send", "to receive", "refused"), rows)
    _show_skipped(found)


def _show_skipped(found: SyncState, *, err: bool = False) -> None:
    for one in found.set_aside:
        print_text(f"Skipped: {one.id or 'a record without an id'}: {one.reason}", err=err)
    if found.set_aside:
        print_text("`memory-mcp sync resync NAMESPACE` requests these from the hub again.", err=err)
