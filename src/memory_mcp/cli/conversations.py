"""memory-mcp list conversations|given: what hooks have kept, and what they gave to models."""

from pathlib import Path

from rich.text import Text

from memory_mcp.cli.common import use_app
from memory_mcp.cli.output import console, print_json, print_row, print_text
from memory_mcp.conversations.model import ConversationFilter
from memory_mcp.families.notes.addresses import conversation_ref

NO_HOOKS = "`memory-mcp connect CLIENT --auto` sets hooks up."


def list_conversations(limit: int, data_dir: Path | None, *, as_json: bool) -> None:
    """Print the conversations that hooks have kept, the last first."""
    with use_app(data_dir) as (app, caller):
        found, _ = app.conversations.reader.page(caller, ConversationFilter(), limit)
    if as_json:
        shown = [
            {"ref": one.ref, "project": one.project, "client": one.client, "title": one.title}
            | {"messages": one.messages, "started_at": one.started_at, "last_at": one.last_at}
            for one in found
        ]
        print_json({"conversations": shown})
        return
    out = console()
    if not found:
        print_text(f"There are no conversations. Hooks keep them. {NO_HOOKS}")
    for one in found:
        print_row(out, _time(one.last_at), one.ref, f"{one.project}, {one.messages}: {one.title}")


def list_given(limit: int, data_dir: Path | None, *, as_json: bool) -> None:
    """Print what hooks gave to models and why, the last first."""
    with use_app(data_dir) as (app, caller):
        found, _ = app.conversations.reader.given(caller, None, limit)
    if as_json:
        shown = [
            {"at": one.at, "conversation": conversation_ref(one.conversation), "project": one.project}
            | {"event": one.event, "memories": [vars(memory) for memory in one.memories]}
            for one in found
        ]
        print_json({"given": shown})
        return
    out = console()
    if not found:
        print_text(f"There is no record of what hooks gave to models. {NO_HOOKS}")
    for one in found:
        to = f"{one.event} in {one.project}"
        out.print(Text.assemble((f"{_time(one.at)}  ", "dim"), (conversation_ref(one.conversation), "cyan"), f"  {to}"))
        for memory in one.memories:
            out.print(Text.assemble(f"  {memory.ref}  ", (memory.why, "dim")), soft_wrap=True)


def _time(moment: str) -> str:
    return moment[:16].replace("T", " ")


LISTS = {"conversations": list_conversations, "given": list_given}
"""What list prints beside the families."""
