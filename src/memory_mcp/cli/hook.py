"""memory-mcp hook EVENT: its help and --explain. The call of a client does not pass through here."""

from typing import Annotated

import typer
from rich.text import Text

from memory_mcp.cli.common import AsJson, DataDir, chosen_settings
from memory_mcp.cli.output import console, print_json, print_text
from memory_mcp.hooks import records

FOR_CLIENTS = (
    "Clients call this by themselves, with the event's JSON on stdin: there is nothing to type here. "
    "`memory-mcp connect CLIENT --auto` sets a client up, and `memory-mcp hook --explain` shows its last calls."
)


def hook(
    event: Annotated[str | None, typer.Argument(metavar="EVENT", help="As the client names it.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what the last calls did, and why.")] = False,
    client: Annotated[str, typer.Option(help="Which client calls.")] = "claude-code",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many calls to show.")] = 20,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Answer an event of a client, with its JSON on stdin: give the conversation its memories, or keep what was said.

    Clients call it once `memory-mcp connect CLIENT --auto` has set them up. It ends within two seconds with status 0,
    and prints nothing if anything goes wrong.
    Example: memory-mcp hook --explain
    """
    if not explain:
        print_text(FOR_CLIENTS)
        return
    chosen = chosen_settings(data_dir)
    found = records.last(str(chosen.data_dir), limit)
    if as_json:
        print_json({"calls": found})
        return
    out = console()
    if not found:
        print_text("No client has called a hook yet. `memory-mcp connect CLIENT --auto` sets one up.")
    for call in found:
        when = str(call.get("at", ""))[:19].replace("T", " ")
        why = f", because {call['why']}" if call.get("why") else ""
        where = f" in {call['project']}" if call.get("project") else ""
        what = f"{call.get('did')}{why}"
        out.print(Text.assemble((f"{when}  ", "dim"), f"{call.get('client')} {call.get('event')}{where}: {what} "))
        details = [*([f"{call['ms']} ms"] if "ms" in call else []), *call.get("refs", [])]
        if details:
            out.print(Text("  " + "  ".join(details), "dim"), soft_wrap=True)
