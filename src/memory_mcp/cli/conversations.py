"""memory-mcp list conversations, and rm of a conversation, a project or all that hooks wrote."""

import shlex
import sys
from pathlib import Path

import typer
from rich.text import Text

from memory_mcp.cli.common import use_app
from memory_mcp.cli.output import console, print_json
from memory_mcp.conversations.deletion import ALL, ONE
from memory_mcp.engines.files.kept_copies import LIFETIME, KeptCopies
from memory_mcp.errors import Invalid, NotFound

NAME = "conversations"  # beside the families, for list


def is_ref(ref: str) -> bool:
    return ref.startswith((ONE, ALL))


def list_conversations(limit: int, data_dir: Path | None, *, as_json: bool) -> None:
    """Print the conversations that hooks have kept, the last first."""
    with use_app(data_dir) as (app, caller):
        found = app.conversations.latest(caller, None, limit)
    if as_json:
        shown = [
            {"ref": f"{ONE}{one.id}", "project": one.project, "title": one.title, "messages": one.messages}
            | {"started_at": one.started_at, "last_at": one.last_at}
            for one in found
        ]
        print_json({"conversations": shown})
        return
    out = console()
    if not found:
        out.print("Hooks have kept no conversation yet. `memory-mcp connect CLIENT --auto` sets them up.")
    for one in found:
        when = one.last_at[:16].replace("T", " ")
        line = Text.assemble((f"{when}  ", "dim"), (f"{ONE}{one.id}", "cyan"), f"  {one.project}, {one.messages}: ")
        out.print(line.append(one.title), soft_wrap=True)


def rm(ref: str, data_dir: Path | None, *, undo: bool, yes: bool, as_json: bool) -> None:
    """Archive the notes of a reference, or restore them."""
    with use_app(data_dir) as (app, caller):
        copies = KeptCopies(app.settings.data_dir / "removed")
        if undo:
            copy = copies.get(ref)
            if copy is None:
                raise NotFound(f"There is no copy of {ref} to restore.")
            count = app.conversations.restore(caller, copy)
            copies.delete(ref)
        else:
            if not yes:
                _confirm(ref)
            deleted = app.conversations.delete(caller, ref)
            copies.keep(ref, deleted)
            count = len(deleted["notes"])
    what, verb = ("restored", "Restored") if undo else ("deleted", "Deleted")
    place = ["--data-dir", str(data_dir)] if data_dir else []
    command = None if undo else shlex.join(["memory-mcp", "rm", "--undo", ref, *place])
    if as_json:
        print_json({"ref": ref, what: True, "notes": count, "undo": command})
        return
    more = f" Undo it within {LIFETIME.days} days with: {command}" if command else ""
    typer.echo(f"{verb} {count} notes of {ref}.{more}")


def _confirm(ref: str) -> None:
    if not sys.stdin.isatty():
        raise Invalid("Deleting asks for confirmation. Give --yes to skip that.")
    typer.confirm(f"Delete everything that hooks wrote in {ref}?", abort=True)
